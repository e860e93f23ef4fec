-- Finds the place of a staged job. Read-only.

local fair_queues = require('staging/fair_queues')
local plan_module = require('staging/plan')
local rivals = require('fairness/rivals')
local stage = require('staging/stage')

local plan_open = plan_module.open
local staging, staging_open = fair_queues.staging, fair_queues.open
local staging_lane = stage.staging_lane
local call = redis.call

-- Returns the fair queue that a staged job waits in, and the number of jobs of its tenant before
-- it there. Nil if it is in none.
local function fair_of(base, job)
  -- When the job was staged, the rule may have ordered priorities only within tenants.
  for _, fair in ipairs({staging.level(base, tonumber(job.priority) or 0), base}) do
    local rank = call('ZRANK', staging_lane(fair, job.tenant), job.id)
    if rank then return fair, rank end
  end
end

-- Returns, or nil if the job is in no lane:
--   of_tenant  number   jobs of its tenant before it
--   before     number   staged jobs of higher priorities, which go first
--   room       number   jobs left in the batch of this interval
--   turn       its tenant's turn (`fairness/rivals`)
local function place_of(job)
  local base = staging_open(job.rule, job.queue)
  local own, rank = fair_of(base, job)
  if not own then return nil end
  local before, others, levels = 0, 0, staging.levels(base)
  for _, fair in ipairs(levels) do
    if fair ~= base then others = others + fair.jobs end
  end
  for _, fair in ipairs(levels) do
    if fair == own then break end
    -- The base counts the jobs of all priorities.
    if fair.n > 0 then before = before + math.max(fair == base and base.jobs - others or fair.jobs, 0) end
  end
  local plan = plan_open(job.rule)
  return {of_tenant = rank, before = before, room = plan and math.max(plan.room, 0) or 0,
    turn = rivals.describe(own, job.tenant, function(name) return call('ZCARD', staging_lane(own, name)) end)}
end

return {of = place_of}
