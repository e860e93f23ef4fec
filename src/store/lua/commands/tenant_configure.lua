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
local start_counting_default = headcount.start_counting_default
local call = redis.call

local find = string.find
-- First tenant of `seed` in the arguments.
local FIRST = 15
local DOCS, QUOTAS, FILE, version, letters

on_begin(function()
  DOCS, QUOTAS, FILE = ctx.prefix .. 'tenancy', ctx.prefix .. 'quotas', ctx.prefix .. 'tenancy:file'
  version, letters = unpack(ctx.args, 10, 11)
end)

-- Examines the lanes that wait for a tenant's limit.
local function wake_lanes(tenant)
  call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, '!' .. tenant)
end

-- Starts to count the default tenant's jobs.
local function count_default()
  if find(ctx.allowed, 'd', 1, true) then return end
  letters = letters .. 'd'
  start_counting_default()
end

local function put(tenant, document, words)
  call('HSET', DOCS, tenant, document)
  call('HSET', QUOTAS, tenant, words)
  letters = letters .. 'o'
  if tenant == '_default' then count_default() end
  wake_lanes(tenant)
end

local function remove(tenant)
  call('HDEL', DOCS, tenant)
  call('HDEL', QUOTAS, tenant)
  wake_lanes(tenant)
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
  call('HSET', ctx.prefix .. 'state', 'rules', version)
  signal('rules')
  commit()
  return 1
end

-- Changes the settings of one tenant.
local function change(tenant, before, document, words, kind, data, id)
  if (call('HGET', DOCS, tenant) or '') ~= before then return 0 end
  if document == '' then remove(tenant) else put(tenant, document, words) end
  emit(kind, subject(id), data)
  return finish()
end

-- Returns true if a document was set at run time. The file does not replace it.
local function is_runtime(document)
  return document and string.sub(document, 1, 1) == 'a'
end

-- Replaces the settings that come from the file.
local function seed(tiers, fits_default, number)
  if (call('HGET', QUOTAS, '*') or '') ~= tiers then
    if tiers == '' then call('HDEL', QUOTAS, '*') else call('HSET', QUOTAS, '*', tiers) end
    call('SET', ctx.prefix .. 'rouse', '0') -- the tick examines them in portions
  end
  if fits_default == '1' then count_default() end
  local kept = {}
  for at = FIRST, FIRST + (tonumber(number) - 1) * 5, 5 do
    local tenant, document, words, data, id = unpack(ctx.args, at, at + 4)
    local stored = call('HGET', DOCS, tenant)
    kept[tenant] = true
    call('SADD', FILE, tenant)
    if not stored then emit('tenant.created', subject(id), data) end
    if not is_runtime(stored) and stored ~= document then put(tenant, document, words) end
  end
  for _, tenant in ipairs(call('SMEMBERS', FILE)) do
    if not kept[tenant] then
      local stored = call('HGET', DOCS, tenant)
      if stored and not is_runtime(stored) then remove(tenant) end
      call('SREM', FILE, tenant)
    end
  end
  return finish()
end

local function run()
  if call('HGET', ctx.prefix .. 'state', 'rules') == version then return 1 end -- a resend
  if ctx.args[9] == 'put' then return change(unpack(ctx.args, 12, 18)) end
  return seed(unpack(ctx.args, 12, 14))
end

return run
