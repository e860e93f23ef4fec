-- Part: what tenants are allowed.
--
-- quotas         hash  tenant → `weight boost concurrency rate period depth scheduled soft`, `-` where there is none; `*`: those of
--                      tiers, `prefix words RS …`, the longest prefix first. A tenant's own stands in place of its tier's, as a whole
-- state.tenants  letters of what was ever asked for: o there are tenants with a quota of their own, c with a concurrency, e with what
--                an enqueue is measured by, w with a weight, b with a boost, d the default tenant is counted like any other

local tenant_quota, tenants_open, tenant_exceeded
-- Whoever was at a limit within this time is not told again.
local TOLD_AGAIN_MS = 60000

do -- a script has room for 200 locals

local NAMES = {'weight', 'boost', 'concurrency', 'rate', 'period', 'depth', 'scheduled', 'soft'}
local NONE = {}
local quotas, tiers

at_begin(function()
  quotas, tiers = {}, nil
end)

local function quota_read(words)
  local quota, place = {}, 0
  for word in string.gmatch(words, '%S+') do
    place = place + 1
    if NAMES[place] then quota[NAMES[place]] = tonumber(word) end
  end
  return quota
end

local function tiers_read(text)
  tiers = {}
  for prefix, words in string.gmatch(text, '([^\30\31]*)\31([^\30]*)\30') do
    tiers[#tiers + 1] = {prefix = prefix, quota = quota_read(words)}
  end
end

local function tier_of(name)
  for _, tier in ipairs(tiers) do
    if string.sub(name, 1, #tier.prefix) == tier.prefix then return tier.quota end
  end
  return NONE
end

-- Reads the quotas of tenants, all of them at once.
tenants_open = function(names)
  local unknown = {}
  local has_own = find(allowed, 'o', 1, true)
  if not tiers then unknown[1] = '*' end
  for _, name in ipairs(names) do
    if not quotas[name] then
      quotas[name] = NONE
      if has_own then unknown[#unknown + 1] = name end
    end
  end
  local texts = #unknown > 0 and call('HMGET', P .. 'quotas', unpack(unknown)) or {}
  local own = {}
  for position, name in ipairs(unknown) do
    if name == '*' then tiers_read(texts[position] or '') else own[name] = texts[position] end
  end
  for _, name in ipairs(names) do
    if quotas[name] == NONE then quotas[name] = own[name] and quota_read(own[name]) or tier_of(name) end
  end
end

-- What a tenant is allowed; every field may be missing.
tenant_quota = function(name)
  if allowed == '' or allowed == 'd' then return NONE end
  if not quotas[name] then tenants_open({name}) end
  return quotas[name]
end

-- A name as it was before it was percent-encoded.
local function raw(name)
  return (string.gsub(name, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- Tells that a tenant is at a limit, and what came of it: `rejected`, `accepted` or `held`.
tenant_exceeded = function(name, limit, current, maximum, action)
  local id = raw(name)
  emit('tenant.limit_exceeded', subject(id), '"tenant_id":"' .. string.gsub(id, '[\\"]', '\\%0') .. '","limit":"' .. limit
    .. '","current":' .. int(current) .. ',"maximum":' .. int(maximum) .. ',"action":"' .. action .. '"')
end

-- How many jobs a tenant may have active; false for as many as it likes.
tenant_capped = function(name)
  if not find(allowed, 'c', 1, true) then return false end
  local cap, throttled = tenant_quota(name).concurrency or false, throttle_of(name).cap
  return throttled and math.min(throttled, cap or throttled) or cap
end

tenant_boost = function(name)
  local boost = find(allowed, 'b', 1, true) and tenant_quota(name or '_default').boost
  return boost and boost ~= 0 and boost or nil
end

end
