-- Lists limits and their current state. Read-only.
--
-- ARGV[9…]  '1' and keys of limits, or '0', offset and count to list all
--
-- Returns  {now, total, key, {concurrency, rate, period, throttle, its period, running, started,
--          end of the window, next start, available, room or '', hold, end of the override, '' or
--          '-' if there is none, quota set by an admin or '', quota set by the file or ''}, …};
--          keys that do not exist are left out

local ctx = require('lib/context')
local quota_module = require('limits/quota')
local runtime = require('lib/runtime')

local int = runtime.int
local limit_open, limit_room = quota_module.limit_open, quota_module.limit_room
local newest_bucket = require('limits/rate_buckets').newest
local call = redis.call
local match = string.match

local function run()
  local keys, total = {}, 0
  local is_named, offset, count = unpack(ctx.args, 9, 11)
  if is_named == '1' then
    for position = 10, #ctx.args do keys[#keys + 1] = ctx.args[position] end
  else
    total = call('ZCARD', ctx.prefix .. 'limits')
    keys = call('ZREVRANGE', ctx.prefix .. 'limits', offset, offset + count - 1)
  end
  local answer = {ctx.now_text, total}
  for _, key in ipairs(keys) do
    local limit = limit_open(key)
    local told, own = limit.stored, call('HMGET', limit.name, 'j', 'n')
    if own[1] or own[2] or told.f or told.a or told.o or told.hold then
      local quota, room = limit.quota, limit_room(limit)
      local _, newest = newest_bucket(limit)
      local available = limit.available
      local queue = match(key, '^#(.*)$')
      if queue then available = available + (tonumber(call('HGET', ctx.prefix .. 'counts:' .. queue, 'available') or nil) or 0) end
      local function text(number) return number and int(number) or '' end
      answer[#answer + 1] = key
      answer[#answer + 1] = {text(quota.concurrency), text(quota.rate), text(quota.period), text(quota.throttle),
        text(quota.spread), int(limit.running), int(limit.started),
        text(newest and quota.period and newest + quota.period),
        int(limit.next.ms), int(available), room == math.huge and '' or int(room), int(limit.hold),
        limit.overridden or '-', told.a or '', told.f or ''}
    end
  end
  return answer
end

return run
