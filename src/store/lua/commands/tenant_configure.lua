-- Changes the settings of a tenant, or replaces those that come from the file.
--
-- tenancy       hash    tenant → document that only Rust reads; it begins with `a` if it was set at
--                       run time
-- tenancy:file  set     tenants of the file
-- quotas        hash    `tenants/quotas`
-- rouse         string  cursor of the tick over `caps` (`commands/tick`), set if limits of tiers
--                       change
--
-- ARGV[9…]
--   action   `put` or `seed`
--   version  new version of rules and settings
--   letters  letters of `state.tenants` that the settings need
--   …        `put`: tenant, document to replace or '', new document or '' to remove it, its words
--            in `quotas`, kind and data of an event, the tenant's id as it is shown
--   …        `seed`: tiers, 1 if a tier fits the default tenant, number of tenants; for each: name,
--            document, words, data of an event if it is new, id as it is shown
--
-- Returns  1, or 0 if another document is stored

local ctx = require('lib/context')
local headcount = require('tenants/headcount')
local runtime = require('lib/runtime')

local on_begin, commit, emit, int = runtime.on_begin, runtime.commit, runtime.emit, runtime.int
local signal, subject = runtime.signal, runtime.subject
local default_count = headcount.default_count
local call = redis.call

local find = string.find
local DOCS, QUOTAS, FILE, letters

on_begin(function()
  DOCS, QUOTAS, FILE, letters = ctx.prefix .. 'tenancy', ctx.prefix .. 'quotas', ctx.prefix .. 'tenancy:file', ctx.args[11]
end)

-- Examines the lanes that wait for a tenant's limit.
local function rouse(tenant)
  call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, '!' .. tenant)
end

-- Starts to count the default tenant's jobs.
local function count_default()
  if find(ctx.allowed, 'd', 1, true) then return end
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

-- Stores the letters and the version. Letters are never removed: jobs that need them may be active.
local function finish()
  local all = ctx.allowed
  for letter in string.gmatch(letters, '.') do
    if not find(all, letter, 1, true) then all = all .. letter end
  end
  if all ~= '' then call('HSET', ctx.prefix .. 'state', 'tenants', all) end
  -- Jobs in a common lane may belong to a lane of their tenant now: `dispatch/reshard`.
  if find(all, 'c', 1, true) then call('HSET', ctx.prefix .. 'state', 'limits', '1', 'stale', int(ctx.seq)) end
  -- Waiting tenants get their new weights when their level is next used: `fairness/level`.
  call('HSET', ctx.prefix .. 'state', 'rules', ctx.args[10])
  signal('rules')
  commit()
  return 1
end

local function run()
  if call('HGET', ctx.prefix .. 'state', 'rules') == ctx.args[10] then return 1 end -- a resend
  if ctx.args[9] == 'put' then
    local tenant, before, document = ctx.args[12], ctx.args[13], ctx.args[14]
    if (call('HGET', DOCS, tenant) or '') ~= before then return 0 end
    if document == '' then remove(tenant) else put(tenant, document, ctx.args[15]) end
    emit(ctx.args[16], subject(ctx.args[18]), ctx.args[17])
    return finish()
  end

  local tiers = ctx.args[12]
  if (call('HGET', QUOTAS, '*') or '') ~= tiers then
    if tiers == '' then call('HDEL', QUOTAS, '*') else call('HSET', QUOTAS, '*', tiers) end
    call('SET', ctx.prefix .. 'rouse', '0') -- the tick examines them in portions
  end
  if ctx.args[13] == '1' then count_default() end
  local kept, at = {}, 15
  for _ = 1, tonumber(ctx.args[14]) do
    local tenant, document, words, data, id = ctx.args[at], ctx.args[at + 1], ctx.args[at + 2], ctx.args[at + 3], ctx.args[at + 4]
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

return run
