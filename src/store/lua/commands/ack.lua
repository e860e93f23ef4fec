-- Completes active jobs.
--
-- ARGV[9…]
--   requests    number of requests; for each:
--   id          job
--   worker      worker that answers, or ''
--   op          id of this operation; if it is repeated, the first result is returned
--   tenant      the only tenant visible to the caller, or '' for all
--   has_result  1 if there is a result
--   result      the result, as JSON
--
-- Returns  for each request: the job view, {'missing'}, {'conflict', state, holder or ''} or
--          {'error', text}

-- Required for its commit phase: advances the workflows of the jobs.
require('workflows/workflow')

local ctx = require('lib/context')
local job_module = require('queue/job')
local finish = require('queue/finish')
local answer = require('queue/answer')
local number_in = require('lib/number').number_in
local runtime = require('lib/runtime')

local commit, emit, guarded, int = runtime.commit, runtime.emit, runtime.guarded, runtime.int
local job_view, lease_release, mark, unmark = job_module.view, job_module.lease_release, job_module.mark, job_module.unmark
local job_finish = finish.job_finish
local job_to_answer = answer.job_to_answer

local function ack(id, worker, op, tenant, result)
  local job, refusal = job_to_answer(id, worker, op, tenant)
  if not job then return refusal end
  lease_release(job, 1)
  unmark(job, 'e')
  if result then
    job.result = result
    mark(job, 'r')
  end
  job_finish(job, 'completed')
  emit('job.completed', job, '"state":"completed","attempt":' .. job.attempt
    .. ',"duration_ms":' .. int(ctx.now - number_in(job.started)))
  return job_view(job)
end

local function run()
  local answers, at = {}, 10
  for request = 1, tonumber(ctx.args[9]) do
    local id, worker, op, tenant, has_result, result = unpack(ctx.args, at, at + 5)
    answers[request] = guarded(ack, id, worker, op, tenant, has_result == '1' and result)
    at = at + 6
  end
  commit()
  return answers
end

return run
