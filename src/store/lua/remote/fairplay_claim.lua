-- Moves jobs that the gem sidekiq-fairplay staged for a class into an inbox, under the gem's own
-- locks. Entries of the inbox have a sequence, so that each is imported once; entries from earlier
-- calls come first.
--
-- ARGV
--   class        prefix of the class's keys
--   owner, life  owner of the locks, and their TTL in s
--   inbox        key of the inbox
--   last         key of its last sequence
--   imported     sequence up to which the inbox was imported
--   most         most entries
--   may_take     1 if jobs may be taken
--
-- Returns  {1 if this process holds the locks, else 0, `sequence US args US tenant`, …}

local class, owner, life, inbox, last, imported, most, may_take = unpack(ARGV)
most = tonumber(most)
local call = redis.call
local join = require('lib/wire').join

while true do
  local head = call('LINDEX', inbox, 0)
  if not head or tonumber(string.match(head, '^%d+')) > tonumber(imported) then break end
  call('LPOP', inbox)
end

-- `enqueue_lock` keeps the gem from enqueuing planners, whoever held it before; `execute_lock`
-- shows that none of them runs.
call('SET', class .. 'enqueue_lock', owner, 'EX', life)
local holder = call('GET', class .. 'execute_lock')
local is_owner = holder == owner
if is_owner then
  call('EXPIRE', class .. 'execute_lock', life)
elseif not holder then
  call('SET', class .. 'execute_lock', owner, 'EX', life)
  is_owner = true
end

local room = most - call('LLEN', inbox)
local counts = class .. 'tenant_counts'
if is_owner and may_take == '1' and room > 0 and call('EXISTS', counts) == 1 then
  local time = call('TIME')
  local sequence = math.max(tonumber(call('GET', last) or 0), time[1] * 1000000 + time[2])
  -- An equal part of each tenant, so that tenants with few jobs need not wait for all jobs of
  -- another.
  local tenants = call('HRANDFIELD', counts, room)
  local share = math.max(math.floor(room / math.max(#tenants, 1)), 1)
  for at = 1, #tenants do
    local queue = class .. 'tenant_queue:' .. tenants[at]
    for _ = 1, math.min(share, room) do
      local args = call('LPOP', queue)
      if not args then break end
      sequence, room = sequence + 1, room - 1
      call('RPUSH', inbox, join(string.format('%d', sequence), args, tenants[at]))
    end
    -- The length of the list is authoritative: if the list expired, its count makes the gem fail in
    -- every round.
    local left = call('LLEN', queue)
    if left == 0 then
      call('HDEL', counts, tenants[at])
    else
      call('HSET', counts, tenants[at], left)
      call('PERSIST', queue)
    end
  end
  call('PERSIST', counts)
  call('SET', last, string.format('%d', sequence))
end
local entries = call('LRANGE', inbox, 0, most - 1)
table.insert(entries, 1, is_owner and 1 or 0)
return entries
