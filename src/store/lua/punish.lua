-- How tenants stand as neighbours, changed: who is throttled, who is let go.
--
-- ARGV[9…] the process that decides, or '' where somebody decides by hand; then for each tenant: its name, the document that holds so far or
--          '', the one that is to hold or '', its throttle as in `throttled` or '', kind of an event or '', its data
-- Returns  how many changed, or -1 if another process decides. A tenant whose document is another one is left alone, and so is one
--          whose document is the new one already: that call is sent again

local LEVELS_IN = 256 -- queues that are looked through for levels in which a tenant waits
local PRIORITIES = {}
for priority = 100, -100, -1 do PRIORITIES[#PRIORITIES + 1] = '@p' .. priority end

-- The tenant weighs what it weighs now, wherever it waits.
local function reweigh(fair, name)
  local tenant = tenant_of(fair, name)
  if tenant.state then tenant_reweigh(fair, tenant, tenant.otherwise or tenant.weight) end
end

local function reweigh_all(name)
  for _, rule in ipairs(call('SMEMBERS', P .. 'plans')) do
    for _, queue in ipairs(plan_queues(rule)) do
      for _, fair in ipairs(staging.levels(staging_open(rule, queue))) do reweigh(fair, name) end
    end
  end
  for _, queue in ipairs(call('ZRANGE', LIVE, 0, LEVELS_IN - 1)) do
    for place, score in ipairs(state.levels and call('ZMSCORE', P .. 'ready:' .. queue, unpack(PRIORITIES)) or {}) do
      local level = score and string.sub(PRIORITIES[place], 2)
      if level and call('HEXISTS', P .. 'level:' .. queue .. ':' .. level .. ':busy', name) == 1 then
        reweigh(level_open(queue, level), name)
      end
    end
  end
end

-- A tenant may have more or fewer jobs active: dispatch has to ask from now on, and whoever waits is looked at anew.
local function recap(name)
  local before = allowed
  if not find(allowed, 'c', 1, true) then allowed = allowed .. 'c' end
  if name == '_default' and not find(allowed, 'd', 1, true) then
    allowed = allowed .. 'd'
    default_count()
  end
  if allowed ~= before then call('HSET', P .. 'state', 'tenants', allowed, 'limits', '1') end
  call('HSET', P .. 'state', 'stale', int(seq)) -- see `reshard.lua`
  call('ZADD', P .. 'wakes', now_text, '!' .. name)
end

local function throttle(name, words)
  local before = call('HGET', P .. 'throttled', name) or ''
  if before == words then return end
  if words == '' then
    call('HDEL', P .. 'throttled', name)
  else
    call('HSET', P .. 'throttled', name, words)
  end
  state.throttled = int(call('HLEN', P .. 'throttled'))
  call('HSET', P .. 'state', 'throttled', state.throttled)
  reweigh_all(name)
  if find(before .. words, '%d$') then recap(name) end
end

run = function()
  if ARGV[9] ~= '' and call('GET', P .. 'noise:lock') ~= ARGV[9] then return -1 end
  local changed = 0
  for at = 10, #ARGV, 6 do
    local name, before, after = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    if before ~= after and (call('HGET', P .. 'noise', name) or '') == before then
      changed = changed + 1
      if after == '' then call('HDEL', P .. 'noise', name) else call('HSET', P .. 'noise', name, after) end
      throttle(name, ARGV[at + 3])
      if ARGV[at + 4] ~= '' then emit(ARGV[at + 4], subject(name), ARGV[at + 5]) end
    end
  end
  commit()
  return changed
end
