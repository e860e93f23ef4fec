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

if tonumber(redis.call('GET', ARGV[2]) or 0) >= tonumber(ARGV[3]) then return 0 end
for first = 5, #ARGV, 4000 do
  redis.call('LPUSH', ARGV[1] .. 'queue:' .. ARGV[4], unpack(ARGV, first, math.min(first + 3999, #ARGV)))
end
redis.call('SADD', ARGV[1] .. 'queues', ARGV[4])
redis.call('SET', ARGV[2], ARGV[3])
return 1
