-- Retries an ended job: it becomes available at once, with a new attempt count and its history.
--
-- Takes
--   id      string   job
--   op      string   id of this operation; if it is repeated, the first result is returned
--   tenant  string   the only tenant visible to the caller, or '' for all
--   any     boolean  true for any discarded or cancelled job, false for dead letters only
--
-- Returns  {done: {view: string}} with the job view, `missing` or {conflict: {state: string}}

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local unique_set = require('queue/unique_set')
local stage = require('staging/stage')
local job_inputs = require('workflows/inputs').of_job
local runtime = require('lib/runtime')

local commit, count, emit = runtime.commit, runtime.count, runtime.emit
local job_load, job_set = job_module.load, job_module.set
local job_view, unmark = job_module.view, job_module.unmark
local job_admit = stage.job_admit
local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local id = args.id
  local job = job_load(id, args.tenant)
  if job and job.op == args.op then return write({done = {view = job_view(job)}}) end
  local is_dead = job and call('ZSCORE', ctx.prefix .. 'dead', id)
  if not job or not is_dead and not args.any then return write('missing') end
  if not is_dead and job.state ~= 'discarded' and job.state ~= 'cancelled' then return write({conflict = {state = job.state}}) end
  call('ZREM', ctx.prefix .. 'dead', id)
  call('ZREM', ctx.prefix .. 'finished:' .. job.state, id)
  for _, part in ipairs({'env:', 'err:', 'res:', 'prog:', 'chk:'}) do call('PERSIST', ctx.prefix .. part .. id) end
  -- The job may wait for longer than its workflow is kept.
  if job.inputs then call('SET', ctx.prefix .. 'par:' .. id, job_inputs(job)) end
  job.op = args.op
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
  return write({done = {view = job_view(job)}})
end

return run
