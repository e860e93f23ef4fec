-- What tenants are allowed, changed: one of them, or what the file says.
--
-- tenancy      hash  tenant → document, which only Rust reads; quotas: see `tenant.lua`
-- tenancy:file set   tenants of the file
--
-- ARGV[9…] `put`, new version, letters of what it asks for, tenant, document to replace or '', new document or '' to remove it, its
--          words, kind and data of an event, the tenant's id as it is;
--          or `seed`, new version, letters, tiers, 1 if some fits the default tenant, number of tenants, and for each: tenant, document, words,
--          data of an event if it is new, its id as it is.
--          A document that was set at run time begins with `a`.
-- Returns  1, or 0 if another document holds

local find = string.find
local DOCS, QUOTAS, FILE, letters

at_begin(function()
  DOCS, QUOTAS, FILE, letters = P .. 'tenancy', P .. 'quotas', P .. 'tenancy:file', ARGV[11]
end)

-- Whoever waits for a tenant's limit is looked at anew.
local function rouse(tenant)
  call('ZADD', P .. 'wakes', now_text, '!' .. tenant)
end

-- From now on the default tenant's jobs are counted like anybody's.
local function count_default()
  if find(allowed, 'd', 1, true) then return end
  letters = letters .. 'd'
  default_count()
end

local function put(tenant, document, words)
  call('HSET', DOCS, tenant, document)
  call('HSET', QUOTAS, tenant, words)
  letters = letters .. 'o'
  if tenant == '_default' then count_default() end
  rouse(tenant)
end

local function remove(tenant)
  call('HDEL', DOCS, tenant)
  call('HDEL', QUOTAS, tenant)
  rouse(tenant)
end

-- Letters stay: what they announce may be under way.
local function finish()
  local all = allowed
  for letter in string.gmatch(letters, '.') do
    if not find(all, letter, 1, true) then all = all .. letter end
  end
  if all ~= '' then call('HSET', P .. 'state', 'tenants', all) end
  -- Jobs that wait in one line with those of others may belong in a lane of their tenant now: see `reshard.lua`.
  if find(all, 'c', 1, true) then call('HSET', P .. 'state', 'limits', '1', 'stale', int(seq)) end
  -- Tenants that wait are weighed anew by whoever looks at them next: see `level_reweigh`.
  call('HSET', P .. 'state', 'rules', ARGV[10])
  signal('rules')
  commit()
  return 1
end

run = function()
  if call('HGET', P .. 'state', 'rules') == ARGV[10] then return 1 end -- sent again
  if ARGV[9] == 'put' then
    local tenant, before, document = ARGV[12], ARGV[13], ARGV[14]
    if (call('HGET', DOCS, tenant) or '') ~= before then return 0 end
    if document == '' then remove(tenant) else put(tenant, document, ARGV[15]) end
    emit(ARGV[16], subject(ARGV[18]), ARGV[17])
    return finish()
  end

  local tiers = ARGV[12]
  if (call('HGET', QUOTAS, '*') or '') ~= tiers then
    if tiers == '' then call('HDEL', QUOTAS, '*') else call('HSET', QUOTAS, '*', tiers) end
    call('SET', P .. 'rouse', '0') -- by the tick, in portions
  end
  if ARGV[13] == '1' then count_default() end
  local kept, at = {}, 15
  for _ = 1, tonumber(ARGV[14]) do
    local tenant, document, words, data, id = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local holds = call('HGET', DOCS, tenant)
    kept[tenant] = true
    call('SADD', FILE, tenant)
    if not holds then emit('tenant.created', subject(id), data) end
    if (not holds or string.sub(holds, 1, 1) ~= 'a') and holds ~= document then put(tenant, document, words) end
    at = at + 5
  end
  for _, tenant in ipairs(call('SMEMBERS', FILE)) do
    if not kept[tenant] then
      local holds = call('HGET', DOCS, tenant)
      if holds and string.sub(holds, 1, 1) ~= 'a' then remove(tenant) end
      call('SREM', FILE, tenant)
    end
  end
  return finish()
end
