-- Fails active jobs, or hands them back without counting the attempt as failed.
--
-- ARGV[9…]
--   requests   number of requests; for each:
--   id         job
--   worker     worker that answers, or ''
--   op         id of this operation; if it is repeated, the first result is returned
--   tenant     the only tenant visible to the caller, or '' for all
--   requeues   1 to hand the job back
--   entry      entry of the failure history, as JSON members
--   error      error, as JSON object
--   classes    classes of the error
--   verdict    retry decision of the worker
--   retryable  1 if the error is retryable
--   hold       ms until which the limit of the job's key is held, or ''
--   why        reason of the hold, as JSON
--
-- Returns  for each request: the job view, {'missing'}, {'conflict', state, holder or ''} or
--          {'error', text}

-- Required for its commit phase: advances the workflows of the jobs.
require('workflows/workflow')

local ctx = require('lib/context')
local lane = require('queue/lane')
local job_module = require('queue/job')
local failure_module = require('queue/failure')
local answer = require('queue/answer')
local runtime = require('lib/runtime')

local commit, emit, guarded, int, stamp = runtime.commit, runtime.emit, runtime.guarded, runtime.int, runtime.stamp
local subject = runtime.subject
local limit_label = lane.limit_label
local job_view, lease_hand_back, lease_release = job_module.view, job_module.lease_hand_back, job_module.lease_release
local job_fail = failure_module.job_fail
local job_to_answer = answer.job_to_answer
local call = redis.call
local match = string.match

-- A handler can report that the system it calls limits its requests. That holds the limit of the
-- job's key, or of its queue, and no other. Of two holds the longer one applies.
local LONGEST_HOLD = 86400000

local function hold(job, hold_until, why)
  local key = match(job.lane, ';k=([^;]+)') or job.quota and '#' .. job.queue
  hold_until = math.min(hold_until, ctx.now + LONGEST_HOLD)
  if not key or hold_until <= ctx.now then return end
  local name = ctx.prefix .. 'limit:' .. key
  local steady_until = hold_until + ctx.steady - ctx.now -- on the steady clock: `limits/quota`
  if steady_until <= (tonumber(call('HGET', name, 'hold') or nil) or 0) then return end
  call('HSET', name, 'hold', int(steady_until))
  call('ZADD', job_module.WAKES, 'LT', int(hold_until), key)
  emit('rate_limit.dynamic_adjusted', subject(''), '"key":"' .. limit_label(key) .. '","until":' .. stamp(int(hold_until)) .. ',"reason":' .. why)
end

local function nack(id, worker, op, tenant, requeues, failure)
  local job, refusal = job_to_answer(id, worker, op, tenant)
  if not job then return refusal end
  if failure.hold then hold(job, failure.hold, failure.why) end
  if requeues then
    lease_hand_back(job)
  else
    lease_release(job)
    job_fail(job, failure)
  end
  return job_view(job)
end

local FIRST, WORDS = 10, 12 -- place of the first request in the arguments, and words of each

-- Handles the request that begins at argument `at`.
local function handle(at)
  local id, worker, op, tenant, requeues, entry, error, classes, verdict, retryable, hold_until, why = unpack(ctx.args, at, at + WORDS - 1)
  local failure = {entry = entry, error = error, classes = classes, verdict = verdict, retryable = retryable == '1',
    hold = tonumber(hold_until), why = why}
  return guarded(nack, id, worker, op, tenant, requeues == '1', failure)
end

local function run()
  local answers = {}
  for request = 1, tonumber(ctx.args[9]) do answers[request] = handle(FIRST + (request - 1) * WORDS) end
  commit()
  return answers
end

return run
