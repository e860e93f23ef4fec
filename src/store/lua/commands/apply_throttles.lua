-- Applies decisions of the noisy neighbour detector: throttles tenants, changes throttles and lifts
-- them.
--
-- A tenant is skipped if its stored document differs from the expected one. A resent call finds the
-- new document and skips the tenant too.
--
-- Takes
--   holder   string?  the process that decides; nil for a decision by an operator
--   tenants  list of
--     name      string
--     before    string  expected document, or ''
--     after     string  new document, or '' to remove it
--     throttle  string  as in `throttled`, or ''
--     event     {kind: string, data: string}?
--
-- Returns  number of tenants changed; 0 if another process decides

local ctx = require('lib/context')
local packed = require('lib/packed')
local lane = require('queue/lane')
local plan = require('staging/plan')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local level_module = require('fairness/level')
local headcount = require('tenants/headcount')
local runtime = require('lib/runtime')

local commit, emit, int, subject = runtime.commit, runtime.emit, runtime.int, runtime.subject
local plan_queues = plan.queues
local tenant_of, tenant_reweigh = fair_queue.tenant_of, fair_queue.tenant_reweigh
local staging, staging_open = fair_queues.staging, fair_queues.open
local level_open = level_module.open
local start_counting_default = headcount.start_counting_default
local call = redis.call
local find = string.find

-- Queues searched for levels in which a tenant waits.
local MOST_QUEUES = 256
local PRIORITIES = {}
for priority = 100, -100, -1 do PRIORITIES[#PRIORITIES + 1] = '@p' .. priority end

-- Recomputes a tenant's weight in one fair queue, under its present throttle.
local function reweigh(fair, name)
  local tenant = tenant_of(fair, name)
  if tenant.state then tenant_reweigh(fair, tenant, tenant.otherwise or tenant.weight) end
end

local function reweigh_all(name)
  for _, rule in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    for _, queue in ipairs(plan_queues(rule)) do
      for _, fair in ipairs(staging.levels(staging_open(rule, queue))) do reweigh(fair, name) end
    end
  end
  for _, queue in ipairs(call('ZRANGE', lane.LIVE, 0, MOST_QUEUES - 1)) do
    for place, score in ipairs(ctx.state.levels and call('ZMSCORE', ctx.prefix .. 'ready:' .. queue, unpack(PRIORITIES)) or {}) do
      local level = score and string.sub(PRIORITIES[place], 2)
      if level and call('HEXISTS', ctx.prefix .. 'level:' .. queue .. ':' .. level .. ':busy', name) == 1 then
        reweigh(level_open(queue, level), name)
      end
    end
  end
end

-- The tenant's limit on active jobs changed: makes dispatch check it from now on, and examines the
-- lanes that wait for it.
local function limit_changed(name)
  local before = ctx.tenant_limits
  if not find(ctx.tenant_limits, 'c', 1, true) then ctx.tenant_limits = ctx.tenant_limits .. 'c' end
  if name == '_default' and not find(ctx.tenant_limits, 'd', 1, true) then
    ctx.tenant_limits = ctx.tenant_limits .. 'd'
    start_counting_default()
  end
  if ctx.tenant_limits ~= before then call('HSET', ctx.prefix .. 'state', 'tenants', ctx.tenant_limits, 'limits', '1') end
  call('HSET', ctx.prefix .. 'state', 'stale', int(ctx.seq)) -- see `dispatch/reshard`
  call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, '!' .. name)
end

local function throttle(name, words)
  local before = call('HGET', ctx.prefix .. 'throttled', name) or ''
  if before == words then return end
  if words == '' then
    call('HDEL', ctx.prefix .. 'throttled', name)
  else
    call('HSET', ctx.prefix .. 'throttled', name, words)
  end
  ctx.state.throttled = int(call('HLEN', ctx.prefix .. 'throttled'))
  call('HSET', ctx.prefix .. 'state', 'throttled', ctx.state.throttled)
  reweigh_all(name)
  if find(before .. words, '%d$') then limit_changed(name) end
end

local function run()
  local args = packed.read()
  if args.holder and call('GET', ctx.prefix .. 'noise:lock') ~= args.holder then return packed.write(0) end
  local changed, NOISE = 0, ctx.prefix .. 'noise'
  for _, tenant in ipairs(args.tenants) do
    local name, before, after = tenant.name, tenant.before, tenant.after
    if before ~= after and (call('HGET', NOISE, name) or '') == before then
      changed = changed + 1
      if after == '' then call('HDEL', NOISE, name) else call('HSET', NOISE, name, after) end
      throttle(name, tenant.throttle)
      if tenant.event then emit(tenant.event.kind, subject(name), tenant.event.data) end
    end
  end
  commit()
  return packed.write(changed)
end

return run
