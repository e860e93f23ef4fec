-- Quotas: the weight, boost and limits of tenants.
--
-- quotas         hash  tenant → `weight boost concurrency rate period depth scheduled soft`, `-`
--                      for none; `*` → tiers: `prefix US words RS …`
-- state.tenants        letters, see below
--
-- The longest prefix that fits decides the tier. A tenant's own quota replaces that of its tier as
-- a whole.
--
-- Letters of `state.tenants`; a letter stays once it was needed:
--   o  tenants have quotas of their own
--   c  a quota has a concurrency
--   e  a quota limits what is enqueued
--   w  a quota has a weight
--   b  a quota has a boost
--   d  the default tenant is counted like any other

local ctx = require('lib/context')
local throttle = require('tenants/throttle')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, int, memoize, per_call = runtime.on_begin, runtime.emit, runtime.int, runtime.memoize, runtime.per_call
local subject = runtime.subject
local throttle_of = throttle.of
local call = redis.call
local find = string.find

-- Time after which an exceeded limit of the same tenant is reported again.
local REPORT_INTERVAL_MS = 60000

local NAMES = {'weight', 'boost', 'concurrency', 'rate', 'period', 'depth', 'scheduled', 'soft'}
local NONE = {}
-- Names per HMGET: Lua's stack holds 8,000 values.
local PORTION = 4000
local lengths, tiers, tiers_text -- kept between calls
local quotas = per_call() -- by tenant
local has_tiers, has_own, limits_concurrency, is_boosted
local sub = string.sub

on_begin(function()
  has_tiers, has_own = false, find(ctx.tenant_limits, 'o', 1, true)
  limits_concurrency, is_boosted = find(ctx.tenant_limits, 'c', 1, true), find(ctx.tenant_limits, 'b', 1, true)
end)

-- Remembered between calls: many tenants have the same quota.
local quota_read = memoize(1000, function(words)
  local quota, place = {}, 0
  for word in string.gmatch(words, '%S+') do
    place = place + 1
    if NAMES[place] then quota[NAMES[place]] = tonumber(word) end
  end
  return quota
end)

-- Reads the tiers by prefix, and the lengths of prefixes, longest first.
local function tiers_read(text)
  has_tiers = true
  if text == tiers_text then return end
  local seen = {}
  lengths, tiers, tiers_text = {}, {}, text
  for prefix, words in wire.each_pair(text) do
    if not seen[#prefix] then seen[#prefix], lengths[#lengths + 1] = true, #prefix end
    tiers[prefix] = quota_read(words)
  end
  table.sort(lengths, function(a, b) return a > b end)
end

local function tier_of(name)
  for place = 1, #lengths do
    local quota = tiers[sub(name, 1, lengths[place])]
    if quota then return quota end
  end
  return NONE
end

-- Reads quotas of tenants, all at once.
local function own_read(names)
  local own, unknown = {}, {not has_tiers and '*' or nil}
  for _, name in ipairs(names) do
    if not quotas()[name] then unknown[#unknown + 1] = name end
  end
  for first = 1, #unknown, PORTION do
    local texts = call('HMGET', ctx.prefix .. 'quotas', unpack(unknown, first, math.min(first + PORTION - 1, #unknown)))
    for position = 1, #texts do own[unknown[first + position - 1]] = texts[position] end
  end
  if not has_tiers then tiers_read(own['*'] or '') end
  for place = 1, #names do
    local name = names[place]
    if not quotas()[name] then quotas()[name] = own[name] and quota_read(own[name]) or tier_of(name) end
  end
end

-- Reads the quotas of tenants. If no tenant has one of its own, reading the tiers suffices.
local function tenants_open(names)
  if has_own then
    own_read(names)
  elseif not has_tiers then
    tiers_read(call('HGET', ctx.prefix .. 'quotas', '*') or '')
  end
end

-- Returns the quota of a tenant; any field may be missing.
local function tenant_quota(name)
  if ctx.tenant_limits == '' or ctx.tenant_limits == 'd' then return NONE end
  if not has_own then
    if not has_tiers then tenants_open() end
    return tier_of(name)
  end
  if not quotas()[name] then tenants_open({name}) end
  return quotas()[name]
end

-- Decodes a percent-encoded name.
local function decode(name)
  return (string.gsub(name, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- Emits that a tenant exceeded a limit, and the consequence: `rejected`, `accepted` or `held`.
local function emit_exceeded(name, limit, current, maximum, action)
  local id = decode(name)
  emit('tenant.limit_exceeded', subject(id), '"tenant_id":"' .. string.gsub(id, '[\\"]', '\\%0') .. '","limit":"' .. limit
    .. '","current":' .. int(current) .. ',"maximum":' .. int(maximum) .. ',"action":"' .. action .. '"')
end

-- Returns how many active jobs a tenant may have, false if there is no limit.
local function max_concurrency(name)
  if not limits_concurrency then return false end
  local own, throttled = tenant_quota(name).concurrency or false, throttle_of(name).concurrency
  return throttled and math.min(throttled, own or throttled) or own
end

local function tenant_boost(name)
  local boost = is_boosted and tenant_quota(name or '_default').boost
  return boost and boost ~= 0 and boost or nil
end

return {
  REPORT_INTERVAL_MS = REPORT_INTERVAL_MS,
  boost = tenant_boost,
  max_concurrency = max_concurrency,
  emit_exceeded = emit_exceeded,
  quota = tenant_quota,
  tenants_open = tenants_open,
}
