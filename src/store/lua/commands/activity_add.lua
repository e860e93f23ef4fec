-- Writes sums of tenant activity, which Rust has made of stream entries, if nobody else has written meanwhile.
--
-- did:hH   hash    tenant → `enqueued pushes completed failed ms` of hour H since the epoch; `*`: all of them
-- did:mM   hash    the same of minute M
-- busy:mM  zset    tenants of minute M by how much they did: a job counts one, and so does a second of a worker's
-- ended:mM hash    queue → `completed discarded`: how many of its jobs ended in minute M
-- did:at   string  the last entry of `events` that is in the sums: only who knows it may write, so that each entry counts once
--
-- ARGV[9…] the entry that holds or '', the one up to which this is; then for each minute: minute, hour, number of tenants, and for each:
--          its name, figures of the minute, figures of the hour, how much it did in the minute; number of queues, and for each: its
--          name, figures of the minute
-- Returns  1, or 0 if another entry holds

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int, send = runtime.int, runtime.send
local call = redis.call

-- Longer than anybody reads a bucket for after it is full.
local HOUR_LIVES, MINUTE_LIVES = int(26 * 3600000), int(20 * 60000)

local function write(command, key, list, lives)
  send(command, key, list)
  if #list > 0 then call('PEXPIRE', key, lives) end
end

local function run()
  if (call('GET', ctx.prefix .. 'did:at') or '') ~= ctx.args[9] then return 0 end
  local at = 11
  while ctx.args[at] do
    local minute, hour, tenants = ctx.args[at], ctx.args[at + 1], tonumber(ctx.args[at + 2])
    local minutes, hours, busy = {}, {}, {}
    at = at + 3
    for place = 1, tenants * 2, 2 do
      local name = ctx.args[at]
      minutes[place], minutes[place + 1], hours[place], hours[place + 1] = name, ctx.args[at + 1], name, ctx.args[at + 2]
      if name ~= '*' then busy[#busy + 1], busy[#busy + 2] = ctx.args[at + 3], name end
      at = at + 4
    end
    write('HSET', ctx.prefix .. 'did:m' .. minute, minutes, MINUTE_LIVES)
    write('HSET', ctx.prefix .. 'did:h' .. hour, hours, HOUR_LIVES)
    write('ZADD', ctx.prefix .. 'busy:m' .. minute, busy, MINUTE_LIVES)
    local queues = {unpack(ctx.args, at + 1, at + 2 * tonumber(ctx.args[at]))}
    at = at + 1 + #queues
    write('HSET', ctx.prefix .. 'ended:m' .. minute, queues, MINUTE_LIVES)
  end
  call('SET', ctx.prefix .. 'did:at', ctx.args[10], 'PX', HOUR_LIVES)
  return 1
end

return run
