-- Staged jobs. They are `pending`, marked s, and wait in their tenant's lane of a fair queue.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local lane = require('queue/lane')
local job_module = require('queue/job')
local plan_module = require('staging/plan')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local emit, flush, gather, int = runtime.emit, runtime.flush, runtime.gather, runtime.int
local tally = job_counts.tally
local lane_score = lane.score
local job_make_available, job_move = job_module.make_available, job_module.move
local job_save, job_wait, mark, marked = job_module.save, job_module.wait, job_module.mark, job_module.marked
local unmark = job_module.unmark
local gate_passed, gate_room, plan_open = plan_module.gate_passed, plan_module.gate_room, plan_module.open
local fair_arrive, fair_withdraw, tenant_of = fair_queue.arrive, fair_queue.withdraw, fair_queue.tenant_of
local staging, staging_open, tenant_weight = fair_queues.staging, fair_queues.open, fair_queues.tenant_weight
local call = redis.call

local function staging_lane(fair, tenant)
  return fair.key .. ':lane:' .. tenant
end

-- Stages a job that could run now, or lets it pass: false if it may go to its queue at once. Sets the job's place. `fits` says whether
-- the job's whole request fits into the room that is left.
local function job_stage(job, fits)
  local plan = plan_open(job.rule)
  -- What is meant for a main queue that is not ours cannot go to one of ours.
  if not plan or (plan.state ~= 'running' and not job.push) then return false end
  local base, priority = staging_open(job.rule, job.queue), tonumber(job.priority) or 0
  local fair = plan.within_tenant and base or staging.level(base, priority)
  local tenant = tenant_of(fair, job.tenant)
  local weight, elsewhere = tenant_weight(fair, tenant, plan)
  local is_known = tenant.told or (tenant.asked or '0') ~= '0'
  -- Nobody overtakes whoever waits, at whatever priority.
  if not job.push and fair.n == 0 and weight > 0 and (is_known or not (plan.ask or plan.hold)) and staging.waiting(base) == 0
    and not staging.is_stuck(plan, job.queue, job.tenant) then
    local room = gate_room(plan, job.queue, base.aim)
    if room > 0 and (not fits or fits(job.rule, job.queue, room)) then
      gate_passed(plan, job.queue)
      return false
    end
  end
  ctx.seq = ctx.seq + 1
  job.seq = int(ctx.seq)
  gather('ZADD', staging_lane(fair, job.tenant), lane_score(priority, ctx.seq), job.id)
  -- A tenant that has a turn at another priority has one here, even if the webhook has not answered.
  fair_arrive(fair, tenant, weight, plan.ask and not is_known and (not elsewhere or elsewhere.state == 'u'))
  if elsewhere then base.repeats = base.repeats + 1 end
  staging.count(fair, 1)
  plan.staged, plan.added = plan.staged + 1, plan.added + 1
  return true
end

-- A pending job is staged from now on.
local function staged_begin(job)
  mark(job, 's')
  tally(job.tenant, 'pending', -1)
  tally(job.tenant, 'staged', 1)
end

-- It is no longer, if it was.
local function staged_end(job)
  if not marked(job, 's') then return end
  unmark(job, 's')
  tally(job.tenant, 'staged', -1)
  tally(job.tenant, 'pending', 1)
end

-- A job that could run now goes to staging if a plan wants it so, else it is available, which is true then. Saves the job.
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

-- Makes a job that has left its lane available. Saves it.
local function job_release(job)
  staged_end(job)
  job_make_available(job)
  job_save(job)
  emit('job.enqueued', job, '"state":"available"')
end

-- Takes a staged job out of its lane without promoting it.
local function job_unstage(job)
  flush()
  local base, plan = staging_open(job.rule, job.queue), plan_open(job.rule)
  staged_end(job)
  -- The rule may have ordered priorities only within tenants when the job was staged.
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
  job_release = job_release,
  job_stage = job_stage,
  job_unstage = job_unstage,
  staging_lane = staging_lane,
}
