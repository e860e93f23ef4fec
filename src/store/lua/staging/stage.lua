-- Staged jobs: they are `pending`, have mark s, and wait in their tenant's lane of a fair queue.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local lane = require('queue/lane')
local job_module = require('queue/job')
local plan_module = require('staging/plan')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local emit, flush, gather, int = runtime.emit, runtime.flush, runtime.gather, runtime.int
local count_promoted, count_tenant = job_counts.count_promoted, job_counts.count_tenant
local lane_score = lane.score
local job_enter_lane, job_make_available, job_move = job_module.enter_lane, job_module.make_available, job_module.move
local job_save, job_wait, mark, marked = job_module.save, job_module.wait, job_module.mark, job_module.marked
local unmark = job_module.unmark
local gate_passed, gate_room, plan_open = plan_module.gate_passed, plan_module.gate_room, plan_module.open
local fair_arrive, fair_withdraw, tenant_of = fair_queue.arrive, fair_queue.withdraw, fair_queue.tenant_of
local staging, staging_open, tenant_weight = fair_queues.staging, fair_queues.open, fair_queues.tenant_weight
local call = redis.call

local function staging_lane(fair, tenant)
  return fair.key .. ':lane:' .. tenant
end

-- Stages a runnable job and sets its sequence. Returns false if the job may go straight to its
-- queue. `fits(rule, queue, room)` returns true if the job's whole request fits into the room that
-- is left.
local function job_stage(job, fits)
  local plan = plan_open(job.rule)
  -- Jobs for a main queue in another system cannot go to one of fairgate's own.
  if not plan or (plan.state ~= 'running' and not job.push) then return false end
  local base, priority = staging_open(job.rule, job.queue), tonumber(job.priority) or 0
  local fair = plan.within_tenant and base or staging.level(base, priority)
  local tenant = tenant_of(fair, job.tenant)
  local weight, elsewhere = tenant_weight(fair, tenant, plan)
  local is_known = tenant.remembered or (tenant.asked or '0') ~= '0'
  -- Pass-through only if no tenant waits at any priority, so that no job overtakes another.
  if not job.push and fair.n == 0 and weight > 0 and (is_known or not (plan.ask or plan.hold)) and staging.waiting(base) == 0
    and not staging.is_blocked(plan, job.queue, job.tenant) then
    local room = gate_room(plan, job.queue, base.aim)
    if room > 0 and (not fits or fits(job.rule, job.queue, room)) then
      gate_passed(plan, job.queue)
      return false
    end
  end
  ctx.seq = ctx.seq + 1
  job.seq = int(ctx.seq)
  gather('ZADD', staging_lane(fair, job.tenant), int(lane_score(priority, ctx.seq)), job.id)
  -- A tenant that takes turns at another priority takes turns here too, even if the webhook has not
  -- answered.
  fair_arrive(fair, tenant, weight, plan.ask and not is_known and (not elsewhere or elsewhere.state == 'u'))
  if elsewhere then base.repeats = base.repeats + 1 end
  staging.count(fair, 1)
  plan.staged, plan.added = plan.staged + 1, plan.added + 1
  return true
end

-- Marks a pending job as staged.
local function staged_begin(job)
  mark(job, 's')
  count_tenant(job.tenant, 'pending', -1)
  count_tenant(job.tenant, 'staged', 1)
end

-- Removes the mark of a staged job, if it has one.
local function staged_end(job)
  if not marked(job, 's') then return end
  unmark(job, 's')
  count_tenant(job.tenant, 'staged', -1)
  count_tenant(job.tenant, 'pending', 1)
end

-- Stages a runnable job if a rule requires that, else makes it available. Saves the job. Returns
-- true if it is available. `is_return` is true for retries and scheduled jobs, which are staged
-- again only by rules with `restage`.
local function job_admit(job, is_return)
  if job.rule then
    local plan = plan_open(job.rule)
    if plan and (plan.restage or job.push or not is_return) and job_stage(job) then
      job_move(job, 'pending')
      staged_begin(job)
      job_wait(job)
      job_save(job)
      emit('job.staged', job, '"state":"pending"')
      return false
    end
  end
  job_make_available(job)
  job_save(job)
  return true
end

-- Makes a staged job available that was taken out of its staging lane. The caller saves the job.
local function job_promote(job)
  unmark(job, 's')
  count_promoted(job.queue)
  job.state = 'available'
  job_enter_lane(job)
  -- Consumers of events, such as the count of arrivals, tell promoted jobs from new ones by this.
  emit('job.enqueued', job, '"state":"available","promoted":true')
end

-- Makes a pending job available, and saves it.
local function job_release(job)
  if marked(job, 's') then
    job_promote(job)
  else
    job_make_available(job)
    emit('job.enqueued', job, '"state":"available"')
  end
  job_save(job)
end

-- Takes a staged job out of its lane without promoting it.
local function job_unstage(job)
  flush()
  local base, plan = staging_open(job.rule, job.queue), plan_open(job.rule)
  staged_end(job)
  -- When the job was staged, the rule may have ordered priorities only within tenants.
  local fair = staging.level(base, tonumber(job.priority) or 0)
  if call('ZREM', staging_lane(fair, job.tenant), job.id) == 0 then
    if fair == base or call('ZREM', staging_lane(base, job.tenant), job.id) == 0 then return end
    fair = base
  end
  if plan then plan.staged, plan.added = plan.staged - 1, plan.added - 1 end
  staging.count(fair, -1)
  if call('EXISTS', staging_lane(fair, job.tenant)) == 0 then fair_withdraw(fair, tenant_of(fair, job.tenant)) end
end

return {
  job_admit = job_admit,
  job_promote = job_promote,
  job_release = job_release,
  job_stage = job_stage,
  job_unstage = job_unstage,
  staging_lane = staging_lane,
}
