-- Sets or removes an override of a limit, or the limit that an admin sets, and examines the lanes
-- that wait for it.
--
-- Takes
--   key    string   key of the limit
--   field  string   `o` for an override, `a` for a limit
--   quota  string?  quota; nil to remove it
--   ends   string?  end of the override in ms, or '+ms' from now
--
-- Returns
--   outcome  string  `changed`, `absent` if there was nothing to remove, or `past` if it would end
--                    at once
--   notes    list of string  for metrics

local ctx = require('lib/context')
local packed = require('lib/packed')
local quota_module = require('limits/quota')
local park = require('limits/park')
local runtime = require('lib/runtime')

local commit, int = runtime.commit, runtime.int
local call = redis.call
local match = string.match

-- Returns the time in ms, given one or `+ms` from now.
local function time(text)
  return string.sub(text, 1, 1) == '+' and ctx.now + tonumber(text) or tonumber(text)
end

local function set(key, field, quota, ends)
  local name = ctx.prefix .. 'limit:' .. key
  call('HSET', name, field, quota)
  if field == 'o' then call('HSET', name, 'until', ends and int(ends) or '') end
  call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key)
  call('HSET', ctx.prefix .. 'state', 'limits', '1')
  local queue = match(key, '^#(.*)$')
  if queue then call('SADD', ctx.prefix .. 'limited', queue) end
end

-- Returns true if there was a setting that had not ended.
local function remove(key, field)
  local name = ctx.prefix .. 'limit:' .. key
  local over = field == 'o' and tonumber(call('HGET', name, 'until') or nil)
  local had = call('HDEL', name, field)
  if field == 'o' then call('HDEL', name, 'until') end
  if call('EXISTS', name) == 0 then call('ZREM', ctx.prefix .. 'limits', key) end
  return had == 1 and not (over and over <= ctx.now)
end

local function change(key, field, quota, ends)
  if ends and ends <= ctx.now then return 'past' end
  if quota then
    set(key, field, quota, ends)
  elseif not remove(key, field) then
    return 'absent'
  end
  ctx.state.limits = '1'
  quota_module.limits[key] = nil
  park.wake_limit(key)
  commit()
  return 'changed'
end

local function run()
  local args = packed.read()
  local outcome = change(args.key, args.field, args.quota, args.ends and time(args.ends))
  return packed.write({outcome = outcome, notes = park.metrics})
end

return run
