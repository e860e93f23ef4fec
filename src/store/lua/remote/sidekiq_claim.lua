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

local queue, inbox, last, imported, most = unpack(ARGV)
local call = redis.call

most = tonumber(most)
while true do
  local head = call('LINDEX', inbox, 0)
  if not head or tonumber(string.match(head, '^%d+')) > tonumber(imported) then break end
  call('LPOP', inbox)
end
local room = most - call('LLEN', inbox)
local waiting = math.min(room, call('LLEN', queue))
if waiting > 0 then
  local time = call('TIME')
  -- Derived from the clock, so that it still increases after this Redis has lost its last writes,
  -- or all of them.
  local sequence = math.max(tonumber(call('GET', last) or 0), time[1] * 1000000 + time[2])
  for _ = 1, waiting do
    sequence = sequence + 1
    call('RPUSH', inbox, join(string.format('%d', sequence), call('RPOP', queue)))
  end
  call('SET', last, string.format('%d', sequence))
end
return call('LRANGE', inbox, 0, most - 1)
