-- Takes what the gem sidekiq-fairplay has staged for a class, under the gem's own locks, into an inbox: entries that have a
-- sequence, so that each is taken in once. What the inbox holds already comes first.
--
-- ARGV     prefix of the class's keys, owner of the locks, their life in s, key of the inbox, of its last sequence, sequence up to
--          which the inbox has been taken in, most entries, 1 if jobs may be taken
-- Returns  {1 if the locks are the owner's, else 0, `sequence US args US tenant`, …}

local class, owner, life, inbox, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[7])
local call = redis.call
local join = require('lib/wire').join

while true do
  local head = call('LINDEX', inbox, 0)
  if not head or tonumber(string.match(head, '^%d+')) > tonumber(ARGV[6]) then break end
  call('LPOP', inbox)
end

-- The first lock keeps planners from being enqueued, whoever had it; the second tells that none of them plans.
call('SET', class .. 'enqueue_lock', owner, 'EX', life)
local holder = call('GET', class .. 'execute_lock')
local ours = holder == owner
if ours then
  call('EXPIRE', class .. 'execute_lock', life)
elseif not holder then
  call('SET', class .. 'execute_lock', owner, 'EX', life)
  ours = true
end

local room = most - call('LLEN', inbox)
local counts = class .. 'tenant_counts'
if ours and ARGV[8] == '1' and room > 0 and call('EXISTS', counts) == 1 then
  local time = call('TIME')
  local sequence = math.max(tonumber(call('GET', ARGV[5]) or 0), time[1] * 1000000 + time[2])
  -- Some of each: whoever has few jobs must not wait until all those of another have been taken.
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
    -- The list is the truth: where it expired, its count makes the gem fail in every round.
    local left = call('LLEN', queue)
    if left == 0 then
      call('HDEL', counts, tenants[at])
    else
      call('HSET', counts, tenants[at], left)
      call('PERSIST', queue)
    end
  end
  call('PERSIST', counts)
  call('SET', ARGV[5], string.format('%d', sequence))
end
local answer = call('LRANGE', inbox, 0, most - 1)
table.insert(answer, 1, ours and 1 or 0)
return answer
