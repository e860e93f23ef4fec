-- Gives a class back to the gem sidekiq-fairplay: releases its locks and enqueues its planner,
-- which continues from there.
--
-- Takes
--   class    string  prefix of the class's keys
--   owner    string  owner of the locks
--   prefix   string  prefix of the Sidekiq's keys
--   queue    string  queue of the planner's job
--   payload  string  its payload
--
-- Returns  true, or false if another process holds the locks

local args = cmsgpack.unpack(ARGV[1])
local class, owner = args.class, args.owner
local call = redis.call

if call('GET', class .. 'execute_lock') ~= owner then return cmsgpack.pack(false) end
call('DEL', class .. 'execute_lock')
if call('GET', class .. 'enqueue_lock') == owner then call('DEL', class .. 'enqueue_lock') end
call('LPUSH', args.prefix .. 'queue:' .. args.queue, args.payload)
call('SADD', args.prefix .. 'queues', args.queue)
return cmsgpack.pack(true)
