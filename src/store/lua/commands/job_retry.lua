-- Retries an ended job: it becomes available at once, with a new attempt count and its history.
--
-- ARGV[9…]
--   id      job
--   op      id of this operation; if it is repeated, the first result is returned
--   tenant  the only tenant visible to the caller, or '' for all
--   any     1 for any discarded or cancelled job, 0 for dead letters only
--
-- Returns  {'ok', job view}, {'missing'} or {'conflict', state, ''}

local ctx = require('lib/context')
local job_module = require('queue/job')
local unique_set = require('queue/unique_set')
local stage = require('staging/stage')
local job_inputs = require('workflows/inputs').of_job
local runtime = require('lib/runtime')

local commit, count, emit = runtime.commit, runtime.count, runtime.emit
local job_load, job_set = job_module.load, job_module.set
local job_view, unmark = job_module.view, job_module.unmark
local job_admit = stage.job_admit
local call = redis.call

local function run()
  local id, op, tenant, any = unpack(ctx.args, 9, 12)
  local job = job_load(id, tenant)
  if job and job.op == op then return {'ok', job_view(job)} end
  local is_dead = job and call('ZSCORE', ctx.prefix .. 'dead', id)
  if not job or not is_dead and any == '0' then return {'missing'} end
  if not is_dead and job.state ~= 'discarded' and job.state ~= 'cancelled' then return {'conflict', job.state, ''} end
  call('ZREM', ctx.prefix .. 'dead', id)
  call('ZREM', ctx.prefix .. 'finished:' .. job.state, id)
  for _, part in ipairs({'env:', 'err:', 'res:', 'prog:', 'chk:'}) do call('PERSIST', ctx.prefix .. part .. id) end
  -- The job may wait for longer than its workflow is kept.
  if job.inputs then call('SET', ctx.prefix .. 'par:' .. id, job_inputs(job)) end
  job.op = op
  -- Time limits of the first run no longer apply.
  local over = is_dead and {'ttl', 'total'} or {'ttl', 'total', 'expires', 'shows_expires'}
  for _, name in ipairs(over) do job_set(job, name) end
  job.attempt, job.finished, job.started, job.retry_delay, job.next_retry = 0, '', '', '', ''
  unmark(job, 'd')
  unmark(job, 'x')
  unmark(job, 'c')
  if job.unique then unique_set.add(job) end
  -- If `commands/retain` has forgotten the queue meanwhile, its counts begin with this job.
  if call('HSETNX', ctx.prefix .. 'queues', job.queue, ctx.now_text) == 1 then count(job.queue, job.state, 1) end
  job_admit(job, true)
  emit(is_dead and 'dead_letter.retried' or 'job.revived', job, '"state":"' .. job.state .. '"')
  commit()
  return {'ok', job_view(job)}
end

return run
