-- Writes sums of tenant activity that Rust computed from entries of `events`.
--
-- A writer must name the last entry that is already in the sums. So each entry counts once,
-- although several processes may try.
--
-- did:hH    hash    tenant → `enqueued pushes completed failed ms` of hour H since the epoch; `*`
--                   is the sum of all
-- did:mM    hash    the same for minute M
-- busy:mM   zset    tenants of minute M by activity: one for each job and for each second of a
--                   worker's time
-- ended:mM  hash    queue → `completed discarded` of minute M
-- did:at    string  id of the last entry of `events` that is in the sums
--
-- ARGV[9…]
--   before  value that `did:at` must have, or '' if it must not exist
--   after   new value of `did:at`
--   …       for each minute: minute, hour, number of tenants; for each tenant: name, new value for
--           the minute, new value for the hour, score in `busy`; then number of queues; for each
--           queue: name, new value for the minute
--
-- Returns  1, or 0 if `did:at` has another value

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int, send = runtime.int, runtime.send
local call = redis.call

-- TTLs, longer than a full bucket is read.
local HOUR_TTL, MINUTE_TTL = int(26 * 3600000), int(20 * 60000)

local function write(command, key, list, ttl)
  send(command, key, list)
  if #list > 0 then call('PEXPIRE', key, ttl) end
end

local function run()
  local before, after = unpack(ctx.args, 9, 10)
  if (call('GET', ctx.prefix .. 'did:at') or '') ~= before then return 0 end
  local at = 11
  while ctx.args[at] do
    local minute, hour, tenants = unpack(ctx.args, at, at + 2)
    local minutes, hours, busy = {}, {}, {}
    at = at + 3
    for place = 1, tonumber(tenants) * 2, 2 do
      local name, of_minute, of_hour, score = unpack(ctx.args, at, at + 3)
      minutes[place], minutes[place + 1], hours[place], hours[place + 1] = name, of_minute, name, of_hour
      if name ~= '*' then busy[#busy + 1], busy[#busy + 2] = score, name end
      at = at + 4
    end
    write('HSET', ctx.prefix .. 'did:m' .. minute, minutes, MINUTE_TTL)
    write('HSET', ctx.prefix .. 'did:h' .. hour, hours, HOUR_TTL)
    write('ZADD', ctx.prefix .. 'busy:m' .. minute, busy, MINUTE_TTL)
    local queues = {unpack(ctx.args, at + 1, at + 2 * tonumber(ctx.args[at]))}
    at = at + 1 + #queues
    write('HSET', ctx.prefix .. 'ended:m' .. minute, queues, MINUTE_TTL)
  end
  call('SET', ctx.prefix .. 'did:at', after, 'PX', HOUR_TTL)
  return 1
end

return run
