-- Handles jobs whose time has come: scheduled jobs, retries, expiries and leases that end.

local ctx = require('lib/context')
local job_module = require('queue/job')
local stage = require('staging/stage')
local detach = require('queue/detach')
local failure_module = require('queue/failure')
local runtime = require('lib/runtime')

local emit, gather, guarded, int, stamp = runtime.emit, runtime.gather, runtime.guarded, runtime.int, runtime.stamp
local subject = runtime.subject
local job_expiry, job_load, job_make_available = job_module.expiry, job_module.load, job_module.make_available
local job_save, job_timeout, job_wait = job_module.save, job_module.timeout, job_module.wait
local lease_deadline, lease_release, mark = job_module.lease_deadline, job_module.lease_release, job_module.mark
local marked, unmark = job_module.marked, job_module.unmark
local job_admit = stage.job_admit
local job_cancel, job_detach = detach.job_cancel, detach.job_detach
local discard, job_abandoned, job_fail = failure_module.discard, failure_module.job_abandoned, failure_module.job_fail
local record_failure, server_failure = failure_module.record_failure, failure_module.server_failure
local call = redis.call

local function expire(job)
  if marked(job, 'c') then return job_cancel(job) end -- with its workflow, while it ran
  local kind, event = 'expired', 'job.expired'
  if tonumber(job.total) and tonumber(job.total) <= ctx.now then
    kind, event = 'total_timeout', 'job.total_timeout'
  elseif tonumber(job.ttl) and job.attempt == 0 and tonumber(job.ttl) <= ctx.now then
    kind, event = 'enqueue_ttl_expired', 'job.ttl_expired'
  end
  job_detach(job)
  local failure = server_failure(kind, 'not finished in time')
  record_failure(job, failure.entry)
  mark(job, 'x')
  emit(event, job, '"created_at":' .. stamp(job.created) .. ',"expired_at":' .. stamp(ctx.now_text) .. ',"ttl_ms":' .. ctx.now - job.created)
  discard(job, false, failure.error)
end

-- Handles a waiting job that is due: it expires, or becomes available.
local function handle_due(job)
  local expiry = job_expiry(job)
  if job.state == 'active' or job.finished ~= '' then return end
  if expiry and expiry <= ctx.now then return expire(job) end
  local was = job.state
  if was ~= 'scheduled' and was ~= 'retryable' then return job_wait(job) end
  local at = tonumber(was == 'scheduled' and job.due or job.next_retry)
  if at > ctx.now then return job_wait(job, at) end
  if marked(job, 'l') then -- postponed by a limit, not by its client: it skips staging and keeps its place
    unmark(job, 'l')
    job_make_available(job, true)
    job_save(job)
    emit('job.enqueued', job, '"state":"available"')
  elseif job_admit(job, true) and was == 'scheduled' then
    emit('job.enqueued', job, '"state":"available"')
  end
end

local function seconds(ms)
  return string.format('%.3f', ms / 1000)
end

local function end_lease(job)
  if job.state ~= 'active' then return end
  local deadline = lease_deadline(job)
  if deadline > ctx.now then
    gather('ZADD', job_module.LEASES, int(deadline), job.id)
    return
  end
  local ran = ctx.now - tonumber(job.started)
  if job.total and tonumber(job.total) <= ctx.now then
    expire(job)
  elseif job_timeout(job) <= ctx.now then
    local limit = job_timeout(job) - tonumber(job.started)
    local more = ',"timeout_kind":"execution","limit_seconds":' .. seconds(limit) .. ',"elapsed_seconds":' .. seconds(ran)
    emit('job.timeout', job, '"attempt":' .. job.attempt .. more)
    lease_release(job)
    job_fail(job, server_failure('timeout', 'execution took longer than its timeout', more))
  elseif (tonumber(job.stalled_at) or ctx.now + 1) <= ctx.now then
    emit('job.stalled', job, '"attempt":' .. job.attempt .. ',"timeout_kind":"heartbeat"')
    lease_release(job)
    job_fail(job, server_failure('stalled', 'no heartbeat within heartbeat_timeout'))
  else
    job_abandoned(job, 'visibility_timeout', 'the worker neither finished nor extended its reservation')
  end
end

local function load_and(handle, id)
  local job = job_load(id)
  if job then handle(job) end
end

-- Handles up to `limit` due members of a set and returns their number. `handle` saves what it
-- changes.
local function each_due(set, limit, handle)
  local ids = call('ZRANGEBYSCORE', ctx.prefix .. set, '-inf', ctx.now, 'LIMIT', 0, limit)
  if #ids == 0 then return 0 end
  call('ZREM', ctx.prefix .. set, unpack(ids))
  for _, id in ipairs(ids) do
    if guarded(load_and, handle, id) then -- one broken record must not stop the others
      emit('store.error', subject(id), '"set":"' .. set .. '"')
    end
  end
  return #ids
end

-- Handles what is due. Returns the larger number handled of the two sets; if it equals `limit`,
-- more may be due.
local function sweep(limit)
  return math.max(each_due('due', limit, handle_due), each_due('leases', limit, end_lease))
end

return {sweep = sweep}
