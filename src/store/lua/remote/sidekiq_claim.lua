-- Moves jobs of a queue that no worker reads into an inbox. Entries of the inbox have a sequence,
-- so that each is imported once; entries from earlier calls come first.
--
-- Takes
--   queue     string  key of the queue
--   inbox     string  key of the inbox
--   last      string  key of its last sequence
--   imported  number  sequence up to which the inbox was imported
--   most      number  most entries
--
-- Returns  list of {sequence: number, payload: string}

local wire = require('lib/wire')

local args = cmsgpack.unpack(ARGV[1])
local inbox, most = args.inbox, args.most
local call = redis.call
local ENTRY = wire.pattern(2)

while true do
  local head = call('LINDEX', inbox, 0)
  if not head or tonumber(string.match(head, '^%d+')) > args.imported then break end
  call('LPOP', inbox)
end
local room = most - call('LLEN', inbox)
local waiting = math.min(room, call('LLEN', args.queue))
if waiting > 0 then
  local time = call('TIME')
  -- Derived from the clock, so that it still increases after this Redis has lost its last writes,
  -- or all of them.
  local sequence = math.max(tonumber(call('GET', args.last) or 0), time[1] * 1000000 + time[2])
  for _ = 1, waiting do
    sequence = sequence + 1
    call('RPUSH', inbox, wire.join(string.format('%d', sequence), call('RPOP', args.queue)))
  end
  call('SET', args.last, string.format('%d', sequence))
end
local entries = {}
for place, entry in ipairs(call('LRANGE', inbox, 0, most - 1)) do
  local sequence, payload = string.match(entry, ENTRY)
  entries[place] = {sequence = tonumber(sequence), payload = payload}
end
return cmsgpack.pack(entries)
