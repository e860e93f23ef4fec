-- Sets or removes an override of a limit, or the limit that an admin sets, and examines the lanes
-- that wait for it.
--
-- ARGV[9…]
--   key    key of the limit
--   field  `o` for an override, `a` for a limit
--   quota  quota, or '' to remove it
--   ends   end of the override in ms, '+ms' from now, or ''
--
-- Returns  {1, 0 if there was nothing to remove or -1 if it would end at once, notes for metrics}

local ctx = require('lib/context')
local quota_module = require('limits/quota')
local park = require('limits/park')
local runtime = require('lib/runtime')

local commit, int = runtime.commit, runtime.int
local call = redis.call
local match = string.match

local function run()
  local key, field, quota, ends = unpack(ctx.args, 9, 12)
  if string.sub(ends, 1, 1) == '+' then ends = int(ctx.now + tonumber(ends)) end
  if ends ~= '' and tonumber(ends) <= ctx.now then return {-1, park.metrics} end
  local name = ctx.prefix .. 'limit:' .. key
  local queue = match(key, '^#(.*)$')
  if quota == '' then
    local over = field == 'o' and tonumber(call('HGET', name, 'until') or nil)
    local had = call('HDEL', name, field)
    if field == 'o' then call('HDEL', name, 'until') end
    if call('EXISTS', name) == 0 then call('ZREM', ctx.prefix .. 'limits', key) end
    if had == 0 or over and over <= ctx.now then return {0, park.metrics} end
  else
    call('HSET', name, field, quota)
    if field == 'o' then call('HSET', name, 'until', ends) end
    call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key)
    call('HSET', ctx.prefix .. 'state', 'limits', '1')
    if queue then call('SADD', ctx.prefix .. 'limited', queue) end
  end
  ctx.state.limits = '1'
  quota_module.limits[key] = nil
  park.wake_limit(key)
  commit()
  return {1, park.metrics}
end

return run
