-- Decides what follows a failed attempt: retry, discard or dead letter. The order of the conditions
-- is that of the OJS retry text.

local ctx = require('lib/context')
local activity = require('tenants/activity')
local job_module = require('queue/job')
local finish = require('queue/finish')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, int, stamp = runtime.on_begin, runtime.emit, runtime.int, runtime.stamp
local count_attempts = activity.count_attempts
local job_make_available, job_move, job_save = job_module.make_available, job_module.move, job_module.save
local job_wait, lease_release, mark = job_module.wait, job_module.lease_release, job_module.mark
local job_finish = finish.job_finish
local call = redis.call
local match = string.match

local HISTORY = 25
local DEFAULT_RETRY = 'exponential 1000 2 300000 1 discard'

on_begin(function()
  math.randomseed(ctx.now % 1000000 * 1000 + ctx.seq % 1000)
end)

-- Returns the delay in ms after the failed attempt `attempt`. The maximum delay is applied before
-- and after the jitter.
local function retry_delay(policy, attempt)
  local strategy, initial, coefficient, longest, jitter = match(policy, '^(%S+) (%S+) (%S+) (%S+) (%S+)')
  initial, coefficient, longest = tonumber(initial), tonumber(coefficient), tonumber(longest)
  local delay = initial
  if strategy == 'linear' then
    delay = initial * attempt
  elseif strategy == 'exponential' then
    delay = initial * coefficient ^ (attempt - 1)
  elseif strategy == 'polynomial' then
    delay = initial * attempt ^ coefficient
  end
  delay = math.min(delay, longest)
  if jitter == '1' then delay = math.min(delay * (0.5 + math.random()), longest) end
  return math.floor(delay + 0.5)
end

local function is_listed(patterns, classes)
  for pattern in string.gmatch(patterns or '', '[^' .. wire.FILE .. ']+') do
    local prefix = match(pattern, '^(.*%.)%*$')
    for class in wire.each(classes) do
      if class == pattern or (prefix and string.sub(class, 1, #prefix) == prefix) then return true end
    end
  end
  return false
end

local function record_failure(job, entry)
  local key = ctx.prefix .. 'err:' .. job.id
  call('RPUSH', key, wire.join(job.attempt, ctx.now_text, entry))
  call('LTRIM', key, -HISTORY, -1)
  mark(job, 'f')
  mark(job, 'e')
end

local function max_attempts(job)
  return tonumber(job.max) or 3
end

local function discard(job, dead, error)
  job_finish(job, 'discarded', dead)
  emit('job.discarded', job, '"state":"discarded","total_attempts":' .. job.attempt .. ',"last_error":' .. error)
  if dead then emit('dead_letter.added', job, '"last_error":' .. error) end
end

-- Handles a failed attempt and saves the job. `failure` has these fields:
--
-- entry      JSON members of the history entry
-- error      `{code, message, retryable}` as JSON
-- classes    names that are compared with `non_retryable_errors`
-- verdict    the handler's decision, if it made one
-- retryable
local function job_fail(job, failure)
  record_failure(job, failure.entry)
  count_attempts(job.tenant, 'f', 1)
  local ran_ms = ctx.now - tonumber(job.started)
  emit('job.failed', job, '"attempt":' .. job.attempt .. ',"duration_ms":' .. ran_ms .. ',"error":' .. failure.error)

  local policy = job.retry or DEFAULT_RETRY
  local verdict = failure.verdict
  if verdict == 'DISCARD' or verdict == 'FAIL' then return discard(job, false, failure.error) end
  if verdict == 'DEAD_LETTER' then return discard(job, true, failure.error) end

  local delay = retry_delay(policy, job.attempt)
  local total = tonumber(job.total)
  local retries = failure.retryable and not is_listed(job.fatal, failure.classes) and job.attempt < max_attempts(job)
  if not retries or (total and ctx.now + delay >= total) then
    return discard(job, match(policy, '%S+$') == 'dead_letter', failure.error)
  end
  job_move(job, 'retryable')
  job.retry_delay, job.next_retry = int(delay), int(ctx.now + delay)
  job_wait(job, ctx.now + delay)
  job_save(job)
  emit('job.retrying', job, '"attempt":' .. job.attempt .. ',"max_attempts":' .. max_attempts(job)
    .. ',"retry_delay_ms":' .. delay .. ',"next_retry_at":' .. stamp(int(ctx.now + delay)) .. ',"error":' .. failure.error)
end

local function server_failure(kind, message, more)
  local error = '"code":"' .. kind .. '","message":"' .. message .. '","retryable":true'
  return {entry = '"type":"' .. kind .. '",' .. error .. (more or ''), error = '{' .. error .. '}', classes = kind, retryable = true}
end

-- Handles a lease that ended without an answer, and saves the job. If an attempt is left, the job
-- is available at once, without backoff.
local function job_abandoned(job, kind, message)
  lease_release(job)
  local failure = server_failure(kind, message)
  if job.attempt >= max_attempts(job) then return job_fail(job, failure) end
  record_failure(job, failure.entry)
  count_attempts(job.tenant, 'f', 1)
  emit('job.failed', job, '"attempt":' .. job.attempt .. ',"error":' .. failure.error)
  job.started = ''
  job_make_available(job, true)
  job_save(job)
end

return {
  discard = discard,
  job_abandoned = job_abandoned,
  job_fail = job_fail,
  record_failure = record_failure,
  server_failure = server_failure,
}
