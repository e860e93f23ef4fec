-- Handles everything that is due: schedules, retries, expiries, leases, silent workers, deferred
-- steps of workflows, limits that have room again.
--
-- ARGV[9…]
--   limit    most jobs to handle of each kind
--   signals  1 to signal again which queues have jobs ready, because signals may be lost
--
-- Returns  {1 if more is due and the caller should call again at once, else 0, notes for metrics}

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

local commit, int, signal = runtime.commit, runtime.int, runtime.signal
local workflows = workflow.workflows
local job_abandoned = failure.job_abandoned
local sweep = due.sweep
local take_from = worker_module.take_from
local wake_due = park.wake_due
local report_starved = starvation.report_starved
local call = redis.call
local match = string.match

local function abandon(job)
  job_abandoned(job, 'worker_death', 'the worker was silent for too long')
end

local function run()
  local limit, signals = unpack(ctx.args, 9, 10)
  limit = tonumber(limit)
  local handled = clock_shift.shift_times(limit)
  handled = math.max(handled, sweep(limit))
  local silent_since = int(ctx.now - ctx.settings.dead_after)
  for _, worker in ipairs(call('ZRANGEBYSCORE', ctx.prefix .. 'workers', '-inf', silent_since, 'LIMIT', 0, 10)) do
    handled = math.max(handled, (take_from(worker, limit, 'error', abandon)))
  end
  handled = math.max(handled, workflows.run_deferred(limit))
  -- Limits of tiers changed: examines the lanes that wait for limits of tenants, a portion per
  -- call.
  local cursor = call('GET', ctx.prefix .. 'limits:stopped:at')
  if cursor then
    local found = call('ZSCAN', ctx.prefix .. 'limits:stopped', cursor, 'COUNT', 200)
    for position = 1, #found[2], 2 do call('ZADD', job_module.WAKES, ctx.now_text, found[2][position]) end
    if found[1] == '0' then call('UNLINK', ctx.prefix .. 'limits:stopped:at') else call('SET', ctx.prefix .. 'limits:stopped:at', found[1]) end
  end
  local all_awake = wake_due()
  report_starved()
  -- By now no recalled fetch can still be on its way.
  local given_up = ctx.state.recalled and tonumber(match(ctx.state.recalled, '(%d+)$'))
  if given_up and ctx.now - given_up > 600000 then call('HDEL', ctx.prefix .. 'state', 'recalled') end
  if signals == '1' then
    -- Updates the clock on an idle server too, so that a clock step is detected. A full Redis may
    -- refuse it.
    redis.pcall('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text)
    for _, queue in ipairs(call('ZRANGE', lane.LIVE, 0, 63)) do signal('ready ' .. queue) end
  end
  commit()
  return {(handled >= limit or not all_awake) and 1 or 0, park.metrics}
end

return run
