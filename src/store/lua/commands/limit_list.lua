-- Lists limits and their current state. Read-only.
--
-- Takes one of
--   named  {keys: list of string}  those that do not exist are left out of the reply
--   page   {offset: number, limit: number}  most recently used first
--
-- Returns
--   now     number
--   total   number  all limits, if a page was requested
--   limits  list of
--     key         string
--     quota       {concurrency: number?, rate: {limit: number, period: number}?, throttle: likewise}
--     running     number
--     started     number   starts in the window that ends now
--     resets_at   number?  when all of them have left it
--     next_start  number
--     available   number
--     room        number?  nil if nothing limits it
--     hold_until  number?
--     overridden  {until: number?}?  nil if there is no override
--     admin       string?  quota set by an admin
--     file        string?  quota set by the file

local ctx = require('lib/context')
local packed = require('lib/packed')
local quota_module = require('limits/quota')

local limit_open, limit_room = quota_module.limit_open, quota_module.limit_room
local newest_bucket = require('limits/rate_buckets').newest
local call = redis.call
local floor, match, max = math.floor, string.match, math.max

local function window(limit, period)
  return limit and {limit = limit, period = period}
end

local function read_limit(key)
  local limit = limit_open(key)
  local stored, own = limit.stored, call('HMGET', limit.name, 'j', 'n')
  if not (own[1] or own[2] or stored.f or stored.a or stored.o or stored.hold) then return nil end
  local quota, room, available = limit.quota, limit_room(limit), limit.available
  local _, newest = newest_bucket(limit)
  local queue = match(key, '^#(.*)$')
  if queue then available = available + tonumber(call('HGET', ctx.prefix .. 'counts:' .. queue, 'available') or 0) end
  return {key = key, running = max(limit.running, 0), started = limit.started,
    quota = {concurrency = quota.concurrency, rate = window(quota.rate, quota.period), throttle = window(quota.throttle, quota.spread)},
    resets_at = newest and quota.period and floor(newest + quota.period), next_start = floor(limit.next.ms),
    available = max(available, 0), room = room < math.huge and room or nil, hold_until = limit.hold > ctx.now and limit.hold or nil,
    overridden = limit.overridden and {['until'] = tonumber(limit.overridden)}, admin = stored.a, file = stored.f}
end

local function run()
  local args = packed.read()
  local page, total, limits = args.page, 0, {}
  if page then total = call('ZCARD', ctx.prefix .. 'limits') end
  local keys = page and call('ZREVRANGE', ctx.prefix .. 'limits', page.offset, page.offset + page.limit - 1) or args.named.keys
  for _, key in ipairs(keys) do limits[#limits + 1] = read_limit(key) end
  return packed.write({now = ctx.now, total = total, limits = limits})
end

return run
