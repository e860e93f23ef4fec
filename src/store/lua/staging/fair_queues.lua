-- Fair queues of staging: one for each rule, main queue and priority. A round serves the highest
-- priority at which a tenant waits.
--
-- fair:R:Q     hash  the base: the fair queue of priority 0 (`fairness/fair_queue`). If rule R
--                    orders priorities only within each tenant, it holds the jobs of all
--                    priorities, ordered by its lanes
-- fair:R:Q:pP  hash  the fair queue of another priority P; deleted with its last job
-- low_water    hash  `staging/plan`
--
-- The base is always opened first. Its hash also has values of R and Q as a whole: jobs (of all
-- priorities), aim and aimed, and
--
--   levels   the other priorities with staged jobs: ` 5 -1 `
--   repeats  for each tenant, the number of priorities with staged jobs beyond the first;
--            subtracted so that no tenant counts twice
--
-- Invariant: a tenant's weight, and whether it is held, is the same at all priorities.

local ctx = require('lib/context')
local quotas = require('tenants/quotas')
local plan_module = require('staging/plan')
local fair_queue = require('fairness/fair_queue')
local runtime = require('lib/runtime')

local int, memoize, signal = runtime.int, runtime.memoize, runtime.signal
local tenant_quota = quotas.quota
local IDLE_MS, plan_open = plan_module.IDLE_MS, plan_module.open
local fair_open, tenant_of = fair_queue.open, fair_queue.tenant_of
local call = redis.call

local staging = {}

-- Returns the priorities in a text, highest first.
local priorities = memoize(256, function(text)
  local found = {}
  for priority in string.gmatch(text, '%S+') do found[#found + 1] = tonumber(priority) end
  table.sort(found, function(one, other) return one > other end)
  return found
end)

-- Returns the tenant at another priority at which it has jobs staged, or nil.
local function tenant_elsewhere(fair, name)
  local base = fair.base
  if fair == base and base.levels == ' ' then return nil end
  for _, other in ipairs(staging.levels(base)) do
    local tenant = other ~= fair and tenant_of(other, name)
    if tenant and tenant.state then return tenant end
  end
end

-- Handles the end of a tenant's jobs at a priority. Stores the weight that a webhook returned for
-- it.
local function tenant_remember(fair, tenant)
  local base = fair.base
  if base.repeats > 0 and tenant_elsewhere(fair, tenant.name) then base.repeats = base.repeats - 1 end
  local plan = tenant.asked ~= '0' and plan_open(fair.rule)
  if plan and plan.tag and plan.tag > 0 then
    call('SET', base.key .. ':tag:' .. tenant.name, int(tenant.otherwise or tenant.weight), 'PX', int(plan.tag))
  end
end

-- Returns the weight with which a tenant waits, and the tenant at another priority if it waits
-- there. In order: its present weight, that at another priority, the one remembered from a webhook,
-- its own in the rule, its own everywhere, the default.
local function tenant_weight(fair, tenant, plan)
  if tenant.state then return tenant.otherwise or tenant.weight end
  local elsewhere = tenant_elsewhere(fair, tenant.name)
  if elsewhere then
    tenant.remembered = elsewhere.asked ~= '0' and elsewhere.asked or nil
    return elsewhere.otherwise or elsewhere.weight, elsewhere
  end
  local remembered = plan.tag and call('GET', fair.base.key .. ':tag:' .. tenant.name)
  tenant.remembered = remembered and '1' or nil
  local own = not remembered and plan.fixed and call('HGET', plan.key .. ':own', tenant.name)
  return tonumber(remembered or own or nil) or tenant_quota(tenant.name).weight or plan.default
end

-- Records since when a rule has jobs staged. A cron's time that passed while nothing was staged is
-- not made up for.
local function plan_begins(rule)
  local plan = plan_open(rule)
  if not plan or plan.staged ~= plan.added then return end
  call('HSET', plan.key, 'staged_at', ctx.now_text)
  if not plan.every and plan.due <= ctx.now then
    call('HDEL', plan.key, 'due')
    plan.due = 0
  end
end

local function staging_flushed(fair, has_begun, has_ended)
  if has_ended then
    -- Other rules and priorities may have jobs staged for the same queue, so their fair queues are
    -- counted.
    if call('HINCRBY', ctx.prefix .. 'low_water', 'fair_queues ' .. fair.queue, '-1') <= 0 then
      call('HDEL', ctx.prefix .. 'low_water', 'mark ' .. fair.queue, 'dry ' .. fair.queue, 'fair_queues ' .. fair.queue)
    end
    call('HINCRBY', ctx.prefix .. 'state', 'staged', '-1')
  elseif has_begun then
    call('HINCRBY', ctx.prefix .. 'state', 'staged', '1')
    call('HINCRBY', ctx.prefix .. 'low_water', 'fair_queues ' .. fair.queue, '1')
    call('HSETNX', ctx.prefix .. 'low_water', 'mark ' .. fair.queue, '0')
  end
  -- If tenants waited before, rounds run already. The first tenant of unknown weight still needs a
  -- round at once, which asks the webhook.
  if (has_begun and fair.base.n_at_open == 0) or (fair.u > 0 and fair.had_u == 0) then signal('staged ' .. fair.rule) end
  if fair ~= fair.base then
    if fair.jobs == 0 and fair.had_jobs > 0 then call('UNLINK', fair.key) end
    return
  end
  if fair.levels ~= fair.had_levels or fair.repeats ~= fair.had_repeats then
    call('HSET', fair.key, 'levels', fair.levels, 'repeats', int(fair.repeats))
    fair.had_levels, fair.had_repeats = fair.levels, fair.repeats
  end
  local queues = ctx.prefix .. 'plan:' .. fair.rule .. ':queues'
  if fair.jobs > 0 and fair.had_jobs == 0 then
    call('PERSIST', fair.key)
    call('ZADD', queues, 'NX', 0, fair.queue)
    plan_begins(fair.rule)
  elseif fair.jobs == 0 and fair.had_jobs > 0 then
    call('PEXPIRE', fair.key, int(IDLE_MS))
    call('ZREM', queues, fair.queue)
  end
end

-- Returns true if promoted jobs wait for limits and the rule bounds how many.
staging.checks_blocked = function(plan)
  return (tonumber(ctx.state.parked) or 0) > 0 and plan.blocked ~= math.huge
end

-- Returns true if so many promoted jobs of a tenant wait for limits that no more are promoted.
staging.is_blocked = function(plan, queue, name)
  return staging.checks_blocked(plan) and (tonumber(call('HGET', ctx.prefix .. 'blocked:' .. queue, name) or nil) or 0) >= plan.blocked
end

local STAGING = {counts = true, remember = tenant_remember, flushed = staging_flushed}

local function staging_open(rule, queue)
  local fair = fair_open(ctx.prefix .. 'fair:' .. rule .. ':' .. queue, STAGING)
  fair.rule, fair.queue, fair.base, fair.priority = rule, queue, fair, 0
  return fair
end

-- Returns the fair queue of a priority, whether or not it has jobs.
staging.level = function(base, priority)
  if priority == 0 then return base end
  local name = int(priority)
  local fair = fair_open(base.key .. ':p' .. name, STAGING, not string.find(base.levels, ' ' .. name .. ' ', 1, true))
  fair.rule, fair.queue, fair.base, fair.priority = base.rule, base.queue, base, priority
  return fair
end

-- Returns all fair queues that may have jobs, in serving order: by priority. If the rule orders
-- priorities only within tenants, the queues of other priorities are left from before that setting,
-- and come first.
staging.levels = function(base)
  if base.levels == ' ' then return {base} end
  local plan, levels = plan_open(base.rule), {}
  local last = plan and plan.within_tenant and -101 or 0
  for _, priority in ipairs(priorities(base.levels)) do
    if last and priority < last then
      levels[#levels + 1], last = base, nil
    end
    levels[#levels + 1] = staging.level(base, priority)
  end
  if last then levels[#levels + 1] = base end
  return levels
end

-- Returns the number of waiting tenants and of tenants of unknown weight at all priorities. A
-- tenant that waits at two priorities counts twice.
staging.waiting = function(base)
  if base.levels == ' ' then return base.n, base.u end
  local waiting, unknown = 0, 0
  for _, fair in ipairs(staging.levels(base)) do waiting, unknown = waiting + fair.n, unknown + fair.u end
  return waiting, unknown
end

-- Adds `by` to the number of jobs staged at a priority.
staging.count = function(fair, by)
  local base, before = fair.base, fair.jobs
  fair.jobs = before + by
  if fair == base then return end
  base.jobs = base.jobs + by
  local name = int(fair.priority) .. ' '
  if before == 0 and by > 0 then
    base.levels = base.levels .. name
  elseif fair.jobs == 0 and before > 0 then
    base.levels = string.gsub(base.levels, ' ' .. string.gsub(name, '%-', '%%-'), ' ', 1)
  end
end

return {staging = staging, open = staging_open, tenant_weight = tenant_weight}
