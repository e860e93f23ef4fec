-- Pushes an entry of a fairgate's outbox into a queue, unless that has happened: whoever sends it again, or too late, does no
-- harm.
--
-- ARGV     prefix of the Sidekiq's keys, key of what was delivered last, sequence of the entry, queue, payloads
-- Returns  1, or 0 if it had been delivered

if tonumber(redis.call('GET', ARGV[2]) or 0) >= tonumber(ARGV[3]) then return 0 end
for first = 5, #ARGV, 4000 do
  redis.call('LPUSH', ARGV[1] .. 'queue:' .. ARGV[4], unpack(ARGV, first, math.min(first + 3999, #ARGV)))
end
redis.call('SADD', ARGV[1] .. 'queues', ARGV[4])
redis.call('SET', ARGV[2], ARGV[3])
return 1
