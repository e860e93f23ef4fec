-- Writes sums of tenant activity that Rust computed from entries of `events`.
--
-- A writer must name the last entry that is already in the sums. So each entry counts once,
-- although several processes may try.
--
-- activity:hH  hash    tenant → `enqueued pushes completed failed ms` of hour H since the epoch; `*`
--                   is the sum of all
-- activity:mM  hash    the same for minute M
-- busy:mM   zset    tenants of minute M by activity: one for each job and for each second of a
--                   worker's time
-- ended:mM  hash    queue → `completed discarded` of minute M
-- flow:mM   hash    queue → `arrived attempts ms` of minute M (`queue/flow`)
-- activity:at  string  id of the last entry of `events` that is in the sums
--
-- Takes
--   before   string  value that `activity:at` must have, or '' if it must not exist
--   after    string  new value of `activity:at`
--   minutes  list of
--     minute   number
--     hour     number
--     tenants  list of {name: string, minute: string, hour: string, score: number}  new values for
--              the minute and the hour, and the score in `busy`
--     queues   list of {string, string}  queues and their new values in `ended` for the minute
--     flows    list of {string, string}  queues and their new values in `flow` for the minute
--
-- Returns  true, or false if `activity:at` has another value

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local int, send = runtime.int, runtime.send
local call = redis.call

-- TTLs, longer than a full bucket is read.
local HOUR_TTL, MINUTE_TTL = int(26 * 3600000), int(20 * 60000)

local function write(command, key, list, ttl)
  send(command, key, list)
  if #list > 0 then call('PEXPIRE', key, ttl) end
end

-- Returns the elements of pairs, one after the other.
local function flat(pairs_of_queues)
  local words = {}
  for place, pair in ipairs(pairs_of_queues) do words[place * 2 - 1], words[place * 2] = pair[1], pair[2] end
  return words
end

local function add_minute(bucket)
  local minute, hour = int(bucket.minute), int(bucket.hour)
  local minutes, hours, busy = {}, {}, {}
  for place, tenant in ipairs(bucket.tenants) do
    local at = place * 2
    minutes[at - 1], minutes[at], hours[at - 1], hours[at] = tenant.name, tenant.minute, tenant.name, tenant.hour
    if tenant.name ~= '*' then busy[#busy + 1], busy[#busy + 2] = int(tenant.score), tenant.name end
  end
  write('HSET', ctx.prefix .. 'activity:m' .. minute, minutes, MINUTE_TTL)
  write('HSET', ctx.prefix .. 'activity:h' .. hour, hours, HOUR_TTL)
  write('ZADD', ctx.prefix .. 'busy:m' .. minute, busy, MINUTE_TTL)
  write('HSET', ctx.prefix .. 'ended:m' .. minute, flat(bucket.queues), MINUTE_TTL)
  write('HSET', ctx.prefix .. 'flow:m' .. minute, flat(bucket.flows), MINUTE_TTL)
end

local function run()
  local args = packed.read()
  if (call('GET', ctx.prefix .. 'activity:at') or '') ~= args.before then return packed.write(false) end
  for _, bucket in ipairs(args.minutes) do add_minute(bucket) end
  call('SET', ctx.prefix .. 'activity:at', args.after, 'PX', HOUR_TTL)
  return packed.write(true)
end

return run
