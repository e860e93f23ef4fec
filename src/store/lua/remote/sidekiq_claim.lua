-- Moves jobs of a queue that no worker reads into an inbox. Entries of the inbox have a sequence,
-- so that each is imported once; entries from earlier calls come first.
--
-- ARGV
--   queue     key of the queue
--   inbox     key of the inbox
--   last      key of its last sequence
--   imported  sequence up to which the inbox was imported
--   most      most entries
--
-- Returns  {`sequence US payload`, …}

local join = require('lib/wire').join

local inbox, most = ARGV[2], tonumber(ARGV[5])
while true do
  local head = redis.call('LINDEX', inbox, 0)
  if not head or tonumber(string.match(head, '^%d+')) > tonumber(ARGV[4]) then break end
  redis.call('LPOP', inbox)
end
local room = most - redis.call('LLEN', inbox)
local waiting = math.min(room, redis.call('LLEN', ARGV[1]))
if waiting > 0 then
  local time = redis.call('TIME')
  -- Derived from the clock, so that it still increases after this Redis has lost its last writes,
  -- or all of them.
  local sequence = math.max(tonumber(redis.call('GET', ARGV[3]) or 0), time[1] * 1000000 + time[2])
  for _ = 1, waiting do
    sequence = sequence + 1
    redis.call('RPUSH', inbox, join(string.format('%d', sequence), redis.call('RPOP', ARGV[1])))
  end
  redis.call('SET', ARGV[3], string.format('%d', sequence))
end
return redis.call('LRANGE', inbox, 0, most - 1)
