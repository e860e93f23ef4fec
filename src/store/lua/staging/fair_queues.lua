-- What plan rules have staged: for each rule and main queue a fair queue of its tenants for each priority, as queues have
-- their levels (`fairness/level`). A round serves the highest priority at which somebody waits.
--
-- fair:R:Q     the fair queue of priority 0. Where rule R orders priorities only within each tenant, jobs of all priorities are in it,
--              in lanes that have them in their order. It is opened first in any case, so its hash also holds what there is once for R
--              and Q: jobs (of all priorities), aim, aimed; levels (the other priorities that have jobs staged: ` 5 -1 `), repeats
--              (of how many priorities tenants have jobs staged, beyond the first of each: so tenants are not counted twice)
-- fair:R:Q:pP  the fair queue of another priority P. All of it ends with its last job
--
-- A tenant's weight, and whether it is held, is the same at all priorities.

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

-- The priorities of a text, the highest first.
local priorities = memoize(256, function(text)
  local found = {}
  for priority in string.gmatch(text, '%S+') do found[#found + 1] = tonumber(priority) end
  table.sort(found, function(one, other) return one > other end)
  return found
end)

-- The same tenant at another priority at which it has jobs staged.
local function tenant_elsewhere(fair, name)
  local base = fair.base
  if fair == base and base.levels == ' ' then return nil end
  for _, other in ipairs(staging.levels(base)) do
    local tenant = other ~= fair and tenant_of(other, name)
    if tenant and tenant.state then return tenant end
  end
end

-- A tenant has no jobs staged at a priority any more. Keeps what a webhook said about it.
local function tenant_remember(fair, tenant)
  local base = fair.base
  if base.repeats > 0 and tenant_elsewhere(fair, tenant.name) then base.repeats = base.repeats - 1 end
  local plan = tenant.asked ~= '0' and plan_open(fair.rule)
  if plan and plan.tag and plan.tag > 0 then
    call('SET', base.key .. ':tag:' .. tenant.name, int(tenant.otherwise or tenant.weight), 'PX', int(plan.tag))
  end
end

-- The weight under which a tenant would wait now: the one it has, the one that it has at another priority, the one remembered, its own
-- in the rule, the one that it has everywhere, the default; and the same tenant at another priority, if it waits there.
local function tenant_weight(fair, tenant, plan)
  if tenant.state then return tenant.otherwise or tenant.weight end
  local elsewhere = tenant_elsewhere(fair, tenant.name)
  if elsewhere then
    tenant.told = elsewhere.asked ~= '0' and elsewhere.asked or nil
    return elsewhere.otherwise or elsewhere.weight, elsewhere
  end
  local told = plan.tag and call('GET', fair.base.key .. ':tag:' .. tenant.name)
  tenant.told = told and '1' or nil
  local own = not told and plan.fixed and call('HGET', plan.key .. ':own', tenant.name)
  return tonumber(told or own or nil) or tenant_quota(tenant.name).weight or plan.default
end

-- A rule had nothing staged before this call. A cron's time that passed meanwhile is not made up for: the next one counts.
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
    -- Other rules may have jobs staged for the same queue.
    if call('HINCRBY', ctx.prefix .. 'low', 'n ' .. fair.queue, '-1') <= 0 then
      call('HDEL', ctx.prefix .. 'low', 'm ' .. fair.queue, 'd ' .. fair.queue, 'n ' .. fair.queue)
    end
    call('HINCRBY', ctx.prefix .. 'state', 'staged', '-1')
  elseif has_begun then
    call('HINCRBY', ctx.prefix .. 'state', 'staged', '1')
    call('HINCRBY', ctx.prefix .. 'low', 'n ' .. fair.queue, '1')
    call('HSETNX', ctx.prefix .. 'low', 'm ' .. fair.queue, '0')
  end
  -- Where somebody waited before, rounds are run already; but the first tenant of unknown weight is asked about at once.
  if (has_begun and fair.base.read_n == 0) or (fair.u > 0 and fair.had_u == 0) then signal('staged ' .. fair.rule) end
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

-- Whether promoted jobs wait for limits at all, and the plan minds.
staging.may_stick = function(plan)
  return (tonumber(ctx.state.parked) or 0) > 0 and plan.blocked ~= math.huge
end

-- Whether so many promoted jobs of a tenant wait for their limits that it stays in staging.
staging.is_stuck = function(plan, queue, name)
  return staging.may_stick(plan) and (tonumber(call('HGET', ctx.prefix .. 'blocked:' .. queue, name) or nil) or 0) >= plan.blocked
end

local STAGING = {counts = true, remember = tenant_remember, flushed = staging_flushed}

local function staging_open(rule, queue)
  local fair = fair_open(ctx.prefix .. 'fair:' .. rule .. ':' .. queue, STAGING)
  fair.rule, fair.queue, fair.base, fair.priority = rule, queue, fair, 0
  return fair
end

-- The fair queue of a priority, whether or not it has jobs.
staging.level = function(base, priority)
  if priority == 0 then return base end
  local name = int(priority)
  local fair = fair_open(base.key .. ':p' .. name, STAGING, not string.find(base.levels, ' ' .. name .. ' ', 1, true))
  fair.rule, fair.queue, fair.base, fair.priority = base.rule, base.queue, base, priority
  return fair
end

-- All fair queues that may have jobs, in the order in which rounds serve them: by priority. Where the rule orders priorities only
-- within tenants, those of other priorities are from before it did, and go first.
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

-- How many tenants wait for a turn, at all priorities, and how many for a weight. One that waits at two of them counts twice.
staging.waiting = function(base)
  if base.levels == ' ' then return base.n, base.u end
  local waiting, unknown = 0, 0
  for _, fair in ipairs(staging.levels(base)) do waiting, unknown = waiting + fair.n, unknown + fair.u end
  return waiting, unknown
end

-- So many more jobs are staged at a priority, or fewer.
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
