-- Changes the settings of a tenant, or replaces those that come from the file.
--
-- tenancy       hash    tenant → document that only Rust reads; it begins with `a` if it was set at
--                       run time
-- tenancy:file  set     tenants of the file
-- quotas        hash    `tenants/quotas`
-- limits:stopped:at  string  cursor of the tick over `limits:stopped` (`commands/tick`), set if limits of tiers
--                       change
--
-- Takes
--   version  string  new version of rules and settings
--   letters  string  letters of `state.tenants` that the settings need
-- and in `change` one of
--   put   change of one tenant:
--     tenant    string
--     before    string   document to replace, or ''
--     document  string?  new document; nil to remove it
--     words     string   its words in `quotas`
--     kind      string   of an event
--     data      string   of the event
--     id        string   the tenant's id as it is shown
--   seed  settings of the file:
--     tiers         string
--     fits_default  boolean  true if a tier fits the default tenant
--     tenants       list of {tenant: string, document: string, words: string, data: string, id:
--                   string}  with the data of an event if it is new, and its id as it is shown
--
-- Returns  true, or false if another document is stored

local ctx = require('lib/context')
local packed = require('lib/packed')
local headcount = require('tenants/headcount')
local runtime = require('lib/runtime')

local commit, emit, int = runtime.commit, runtime.emit, runtime.int
local signal, subject = runtime.signal, runtime.subject
local start_counting_default = headcount.start_counting_default
local call = redis.call

local find = string.find
local DOCS, QUOTAS, FILE, version, letters

-- Examines the lanes that wait for a tenant's limit.
local function wake_lanes(tenant)
  call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, '!' .. tenant)
end

-- Starts to count the default tenant's jobs.
local function count_default()
  if find(ctx.tenant_limits, 'd', 1, true) then return end
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
  local all = ctx.tenant_limits
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
  return true
end

-- Changes the settings of one tenant.
local function change(to)
  if (call('HGET', DOCS, to.tenant) or '') ~= to.before then return false end
  if to.document then put(to.tenant, to.document, to.words) else remove(to.tenant) end
  emit(to.kind, subject(to.id), to.data)
  return finish()
end

-- Returns true if a document was set at run time. The file does not replace it.
local function is_runtime(document)
  return document and string.sub(document, 1, 1) == 'a'
end

-- Replaces the settings that come from the file.
local function seed(file)
  local tiers = file.tiers
  if (call('HGET', QUOTAS, '*') or '') ~= tiers then
    if tiers == '' then call('HDEL', QUOTAS, '*') else call('HSET', QUOTAS, '*', tiers) end
    call('SET', ctx.prefix .. 'limits:stopped:at', '0') -- the tick examines them in portions
  end
  if file.fits_default then count_default() end
  local kept = {}
  for _, entry in ipairs(file.tenants) do
    local tenant = entry.tenant
    local stored = call('HGET', DOCS, tenant)
    kept[tenant] = true
    call('SADD', FILE, tenant)
    if not stored then emit('tenant.created', subject(entry.id), entry.data) end
    if not is_runtime(stored) and stored ~= entry.document then put(tenant, entry.document, entry.words) end
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
  local args = packed.read()
  version, letters = args.version, args.letters
  DOCS, QUOTAS, FILE = ctx.prefix .. 'tenancy', ctx.prefix .. 'quotas', ctx.prefix .. 'tenancy:file'
  if call('HGET', ctx.prefix .. 'state', 'rules') == version then return packed.write(true) end -- a resend
  if args.change.put then return packed.write(change(args.change.put)) end
  return packed.write(seed(args.change.seed))
end

return run
