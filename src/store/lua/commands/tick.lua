-- What is due everywhere: schedules, retries, expiries, leases, dead workers, workflows' next jobs, limits that have room again.
--
-- ARGV[9…] most jobs to handle of each kind, 1 to tell again which queues have something ready, because a signal may be lost
-- Returns  {1 if more is due and the caller should call again at once, else 0, notes for metrics}

-- Modules that only take part.
require('workflows/cancel_job')

local ctx = require('lib/context')
local lane = require('queue/lane')
local job_module = require('queue/job')
local workflow = require('workflows/workflow')
local failure = require('queue/failure')
local clock_shift = require('queue/clock_shift')
local due = require('queue/due')
local worker_module = require('dispatch/worker')
local park = require('limits/park')
local starvation = require('dispatch/starvation')
local runtime = require('lib/runtime')

local commit, signal = runtime.commit, runtime.signal
local workflows = workflow.workflows
local job_abandoned = failure.job_abandoned
local sweep = due.sweep
local take_from = worker_module.take_from
local wake_due = park.wake_due
local report_starved = starvation.report_starved
local call = redis.call
local match = string.match

local function bury(job)
  job_abandoned(job, 'worker_death', 'the worker was silent for too long')
end

local function run()
  local limit = tonumber(ctx.args[9])
  local handled = clock_shift.shift_times(limit)
  handled = math.max(handled, sweep(limit))
  for _, worker in ipairs(call('ZRANGEBYSCORE', ctx.prefix .. 'workers', '-inf', ctx.now - ctx.args[8], 'LIMIT', 0, 10)) do
    handled = math.max(handled, (take_from(worker, limit, 'error', bury)))
  end
  handled = math.max(handled, workflows.catch_up(limit))
  -- Other quotas hold for whole tiers: whoever waits for a tenant's limit is looked at anew, a portion a call.
  local cursor = call('GET', ctx.prefix .. 'rouse')
  if cursor then
    local found = call('ZSCAN', ctx.prefix .. 'caps', cursor, 'COUNT', 200)
    for position = 1, #found[2], 2 do call('ZADD', job_module.WAKES, ctx.now_text, found[2][position]) end
    if found[1] == '0' then call('UNLINK', ctx.prefix .. 'rouse') else call('SET', ctx.prefix .. 'rouse', found[1]) end
  end
  local all_awake = wake_due()
  report_starved()
  -- Fetches that were given up: the last of them is no longer on its way.
  local given_up = ctx.state.recalled and tonumber(match(ctx.state.recalled, '(%d+)$'))
  if given_up and ctx.now - given_up > 600000 then call('HDEL', ctx.prefix .. 'state', 'recalled') end
  if ctx.args[10] == '1' then
    -- So that a step back is known for what it is on a server that is idle, too. A full Redis may refuse it.
    redis.pcall('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text)
    for _, queue in ipairs(call('ZRANGE', lane.LIVE, 0, 63)) do signal('ready ' .. queue) end
  end
  commit()
  return {(handled >= limit or not all_awake) and 1 or 0, park.metrics}
end

return run
