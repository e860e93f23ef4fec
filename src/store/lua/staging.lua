-- Part: the fair queues of plan rules, one for each main queue for which a rule has jobs staged.

local tenant_weight, may_stick, is_stuck, staging_open

do -- a script has room for 200 locals

-- Keeps what a webhook said about a tenant that has no jobs staged any more.
local function tenant_remember(fair, tenant)
  local plan = tenant.asked ~= '0' and plan_open(fair.rule)
  if plan and plan.tag then
    call('SET', fair.key .. ':tag:' .. tenant.name, int(tenant.otherwise or tenant.weight), 'PX', int(plan.tag))
  end
end

-- The weight under which a tenant would wait now: the one it has, the one remembered, its own in the rule, the one that it has
-- everywhere, the default.
tenant_weight = function(fair, tenant, plan)
  if tenant.state then return tenant.otherwise or tenant.weight end
  local told = plan.tag and call('GET', fair.key .. ':tag:' .. tenant.name)
  tenant.told = told and true
  local own = not told and plan.fixed and call('HGET', plan.key .. ':own', tenant.name)
  return tonumber(told or own or nil) or tenant_quota(tenant.name).weight or plan.default
end

-- A cron's time that passed while nothing was staged is not made up for: the next one counts.
local function forget_missed(rule)
  local plan = plan_open(rule)
  if plan and not plan.every and plan.staged == plan.added and plan.due <= now then
    call('HDEL', plan.key, 'due')
    plan.due = 0
  end
end

local function staging_flushed(fair, has_begun, has_ended)
  if has_ended then
    -- Other rules may have jobs staged for the same queue.
    if call('HINCRBY', P .. 'low', 'n ' .. fair.queue, '-1') <= 0 then
      call('HDEL', P .. 'low', 'm ' .. fair.queue, 'd ' .. fair.queue, 'n ' .. fair.queue)
    end
    call('HINCRBY', P .. 'state', 'staged', '-1')
  elseif has_begun then
    call('HINCRBY', P .. 'state', 'staged', '1')
    call('HINCRBY', P .. 'low', 'n ' .. fair.queue, '1')
    call('HSETNX', P .. 'low', 'm ' .. fair.queue, '0')
    signal('staged ' .. fair.rule)
  end
  local queues = P .. 'plan:' .. fair.rule .. ':queues'
  if fair.jobs > 0 and fair.had_jobs == 0 then
    call('PERSIST', fair.key)
    call('ZADD', queues, 'NX', 0, fair.queue)
    forget_missed(fair.rule)
  elseif fair.jobs == 0 and fair.had_jobs > 0 then
    call('PEXPIRE', fair.key, int(IDLE_MS))
    call('ZREM', queues, fair.queue)
  end
end

-- Whether promoted jobs wait for limits at all, and the plan minds.
may_stick = function(plan)
  return (tonumber(state.parked) or 0) > 0 and plan.blocked ~= math.huge
end

-- Whether so many promoted jobs of a tenant wait for their limits that it stays in staging.
is_stuck = function(plan, queue, name)
  return may_stick(plan) and (tonumber(call('HGET', P .. 'blocked:' .. queue, name) or nil) or 0) >= plan.blocked
end

local STAGING = {counts = true, remember = tenant_remember, flushed = staging_flushed}

staging_open = function(rule, queue)
  local fair = fair_open(P .. 'fair:' .. rule .. ':' .. queue, STAGING)
  fair.rule, fair.queue = rule, queue
  return fair
end

end
