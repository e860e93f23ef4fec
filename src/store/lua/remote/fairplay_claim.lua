-- Moves jobs that the gem sidekiq-fairplay staged for a class into an inbox, under the gem's own
-- locks. Entries of the inbox have a sequence, so that each is imported once; entries from earlier
-- calls come first.
--
-- Takes
--   class     string   prefix of the class's keys
--   owner     string   owner of the locks
--   life      number   TTL of the locks in s
--   inbox     string   key of the inbox
--   last      string   key of its last sequence
--   imported  number   sequence up to which the inbox was imported
--   most      number   most entries
--   may_take  boolean  true if jobs may be taken
--
-- Returns
--   is_ours  boolean  true if this process holds the locks
--   jobs     list of {sequence: number, args: string, tenant: string}

local args = cmsgpack.unpack(ARGV[1])
local class, owner, life, inbox = args.class, args.owner, args.life, args.inbox
local call = redis.call
local wire = require('lib/wire')
local ENTRY = wire.pattern(3)

while true do
  local head = call('LINDEX', inbox, 0)
  if not head or tonumber(string.match(head, '^%d+')) > args.imported then break end
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

local room = args.most - call('LLEN', inbox)
local counts = class .. 'tenant_counts'
if is_owner and args.may_take and room > 0 and call('EXISTS', counts) == 1 then
  local time = call('TIME')
  local sequence = math.max(tonumber(call('GET', args.last) or 0), time[1] * 1000000 + time[2])
  -- An equal part of each tenant, so that tenants with few jobs need not wait for all jobs of
  -- another.
  local tenants = call('HRANDFIELD', counts, room)
  local share = math.max(math.floor(room / math.max(#tenants, 1)), 1)
  for at = 1, #tenants do
    local queue = class .. 'tenant_queue:' .. tenants[at]
    for _ = 1, math.min(share, room) do
      local taken = call('LPOP', queue)
      if not taken then break end
      sequence, room = sequence + 1, room - 1
      call('RPUSH', inbox, wire.join(string.format('%d', sequence), taken, tenants[at]))
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
  call('SET', args.last, string.format('%d', sequence))
end
local jobs = {}
for place, entry in ipairs(call('LRANGE', inbox, 0, args.most - 1)) do
  local sequence, taken, tenant = string.match(entry, ENTRY)
  jobs[place] = {sequence = tonumber(sequence), args = taken, tenant = tenant}
end
return cmsgpack.pack({is_ours = is_owner, jobs = jobs})
