-- Gives a class back to the gem sidekiq-fairplay: frees its locks and enqueues its planner, which goes on by itself.
--
-- ARGV     prefix of the class's keys, owner of the locks, prefix of the Sidekiq's keys, queue of the planner, its payload
-- Returns  1, or 0 if the locks were not the owner's

if redis.call('GET', ARGV[1] .. 'execute_lock') ~= ARGV[2] then return 0 end
redis.call('DEL', ARGV[1] .. 'execute_lock')
if redis.call('GET', ARGV[1] .. 'enqueue_lock') == ARGV[2] then redis.call('DEL', ARGV[1] .. 'enqueue_lock') end
redis.call('LPUSH', ARGV[3] .. 'queue:' .. ARGV[4], ARGV[5])
redis.call('SADD', ARGV[3] .. 'queues', ARGV[4])
return 1
