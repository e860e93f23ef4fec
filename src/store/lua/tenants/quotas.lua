-- What tenants are allowed.
--
-- quotas         hash  tenant → `weight boost concurrency rate period depth scheduled soft`, `-` where there is none; `*`: those of
--                      tiers, `prefix words RS …`, the longest prefix first. A tenant's own stands in place of its tier's, as a whole
-- state.tenants  letters of what was ever asked for: o there are tenants with a quota of their own, c with a concurrency, e with what
--                an enqueue is measured by, w with a weight, b with a boost, d the default tenant is counted like any other

local ctx = require('lib/context')
local throttle = require('tenants/throttle')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, int, memoize, per_call = runtime.on_begin, runtime.emit, runtime.int, runtime.memoize, runtime.per_call
local subject = runtime.subject
local throttle_of = throttle.of
local call = redis.call
local find = string.find

-- Whoever was at a limit within this time is not told again.
local TOLD_AGAIN_MS = 60000

local NAMES = {'weight', 'boost', 'concurrency', 'rate', 'period', 'depth', 'scheduled', 'soft'}
local NONE = {}
-- Lua's stack holds 8,000 values.
local PORTION = 4000
local lengths, tiers, tiers_text -- remembered between calls, as they seldom change
local quotas = per_call() -- by tenant
local has_tiers, has_own, is_capped, is_boosted
local sub = string.sub

on_begin(function()
  has_tiers, has_own = false, find(ctx.allowed, 'o', 1, true)
  is_capped, is_boosted = find(ctx.allowed, 'c', 1, true), find(ctx.allowed, 'b', 1, true)
end)

-- Many tenants share the same terms.
local quota_read = memoize(1000, function(words)
  local quota, place = {}, 0
  for word in string.gmatch(words, '%S+') do
    place = place + 1
    if NAMES[place] then quota[NAMES[place]] = tonumber(word) end
  end
  return quota
end)

-- Tiers by their prefix, and the lengths that prefixes have, the longest first.
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

-- Reads the quotas of tenants that have their own, all of them at once.
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

-- Reads what tenants are allowed; nothing is kept of each where none has a quota of its own.
local function tenants_open(names)
  if has_own then
    own_read(names)
  elseif not has_tiers then
    tiers_read(call('HGET', ctx.prefix .. 'quotas', '*') or '')
  end
end

-- What a tenant is allowed; every field may be missing.
local function tenant_quota(name)
  if ctx.allowed == '' or ctx.allowed == 'd' then return NONE end
  if not has_own then
    if not has_tiers then tenants_open() end
    return tier_of(name)
  end
  if not quotas()[name] then tenants_open({name}) end
  return quotas()[name]
end

-- A name as it was before it was percent-encoded.
local function raw(name)
  return (string.gsub(name, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- Tells that a tenant is at a limit, and what came of it: `rejected`, `accepted` or `held`.
local function tenant_exceeded(name, limit, current, maximum, action)
  local id = raw(name)
  emit('tenant.limit_exceeded', subject(id), '"tenant_id":"' .. string.gsub(id, '[\\"]', '\\%0') .. '","limit":"' .. limit
    .. '","current":' .. int(current) .. ',"maximum":' .. int(maximum) .. ',"action":"' .. action .. '"')
end

-- How many jobs a tenant may have active; false for as many as it likes.
local function tenant_capped(name)
  if not is_capped then return false end
  local cap, throttled = tenant_quota(name).concurrency or false, throttle_of(name).cap
  return throttled and math.min(throttled, cap or throttled) or cap
end

local function tenant_boost(name)
  local boost = is_boosted and tenant_quota(name or '_default').boost
  return boost and boost ~= 0 and boost or nil
end

return {
  TOLD_AGAIN_MS = TOLD_AGAIN_MS,
  boost = tenant_boost,
  capped = tenant_capped,
  exceeded = tenant_exceeded,
  quota = tenant_quota,
  tenants_open = tenants_open,
}
