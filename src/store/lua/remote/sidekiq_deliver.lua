-- Pushes the jobs of an outbox entry into a queue, once: an entry that is delivered again, or late,
-- changes nothing.
--
-- ARGV
--   prefix     prefix of the Sidekiq's keys
--   delivered  key of the sequence up to which entries were delivered
--   sequence   sequence of the entry
--   queue      queue
--   …          payloads
--
-- Returns  1, or 0 if the entry was delivered before

local prefix, delivered, sequence, queue = unpack(ARGV, 1, 4)
local call = redis.call

if tonumber(call('GET', delivered) or 0) >= tonumber(sequence) then return 0 end
for first = 5, #ARGV, 4000 do
  call('LPUSH', prefix .. 'queue:' .. queue, unpack(ARGV, first, math.min(first + 3999, #ARGV)))
end
call('SADD', prefix .. 'queues', queue)
call('SET', delivered, sequence)
return 1
