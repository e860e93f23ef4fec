-- Gives a class back to the gem sidekiq-fairplay: releases its locks and enqueues its planner,
-- which continues from there.
--
-- ARGV
--   class           prefix of the class's keys
--   owner           owner of the locks
--   prefix          prefix of the Sidekiq's keys
--   queue, payload  queue and payload of the planner's job
--
-- Returns  1, or 0 if another process holds the locks

if redis.call('GET', ARGV[1] .. 'execute_lock') ~= ARGV[2] then return 0 end
redis.call('DEL', ARGV[1] .. 'execute_lock')
if redis.call('GET', ARGV[1] .. 'enqueue_lock') == ARGV[2] then redis.call('DEL', ARGV[1] .. 'enqueue_lock') end
redis.call('LPUSH', ARGV[3] .. 'queue:' .. ARGV[4], ARGV[5])
redis.call('SADD', ARGV[3] .. 'queues', ARGV[4])
return 1
