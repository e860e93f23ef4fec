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

local class, owner, prefix, queue, payload = unpack(ARGV)
local call = redis.call

if call('GET', class .. 'execute_lock') ~= owner then return 0 end
call('DEL', class .. 'execute_lock')
if call('GET', class .. 'enqueue_lock') == owner then call('DEL', class .. 'enqueue_lock') end
call('LPUSH', prefix .. 'queue:' .. queue, payload)
call('SADD', prefix .. 'queues', queue)
return 1
