-- Pushes the jobs of an outbox entry into a queue, once: an entry that is delivered again, or late,
-- changes nothing.
--
-- Takes
--   prefix     string  prefix of the Sidekiq's keys
--   delivered  string  key of the sequence up to which entries were delivered
--   sequence   number  sequence of the entry
--   queue      string  queue
--   payloads   list of string
--
-- Returns  true, or false if the entry was delivered before

local args = cmsgpack.unpack(ARGV[1])
local payloads = args.payloads
local call = redis.call

if tonumber(call('GET', args.delivered) or 0) >= args.sequence then return cmsgpack.pack(false) end
for first = 1, #payloads, 4000 do
  call('LPUSH', args.prefix .. 'queue:' .. args.queue, unpack(payloads, first, math.min(first + 3999, #payloads)))
end
call('SADD', args.prefix .. 'queues', args.queue)
call('SET', args.delivered, string.format('%d', args.sequence))
return cmsgpack.pack(true)
