-- Part: everything that happens because time has passed.

local sweep

do -- a script has room for 200 locals

local function give_up(job)
  if marked(job, 'c') then return job_cancel(job) end -- with its workflow, while it ran
  local kind, event = 'expired', 'job.expired'
  if tonumber(job.total) and tonumber(job.total) <= now then
    kind, event = 'total_timeout', 'job.total_timeout'
  elseif tonumber(job.ttl) and job.attempt == 0 and tonumber(job.ttl) <= now then
    kind, event = 'enqueue_ttl_expired', 'job.ttl_expired'
  end
  job_detach(job)
  local failure = server_failure(kind, 'not finished in time')
  record_failure(job, failure.entry)
  mark(job, 'x')
  emit(event, job, '"created_at":' .. stamp(job.created) .. ',"expired_at":' .. stamp(now_text) .. ',"ttl_ms":' .. now - job.created)
  discard(job, false, failure.error)
end

-- A waiting job's time has come: it is given up, or becomes available.
local function come_due(job)
  local expiry = job_expiry(job)
  if job.state == 'active' or job.finished ~= '' then return end
  if expiry and expiry <= now then return give_up(job) end
  local was = job.state
  if was ~= 'scheduled' and was ~= 'retryable' then return job_wait(job) end
  local at = tonumber(was == 'scheduled' and job.due or job.next_retry)
  if at > now then return job_wait(job, at) end
  if marked(job, 'l') then -- a limit put it off, not its client: it has been through staging, and keeps its place
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

local function lapse(job)
  if job.state ~= 'active' then return end
  local deadline = lease_deadline(job)
  if deadline > now then
    gather('ZADD', LEASES, deadline, job.id)
    return
  end
  local ran = now - tonumber(job.started)
  if job.total and tonumber(job.total) <= now then
    give_up(job)
  elseif job_timeout(job) <= now then
    local limit = job_timeout(job) - tonumber(job.started)
    local more = ',"timeout_kind":"execution","limit_seconds":' .. seconds(limit) .. ',"elapsed_seconds":' .. seconds(ran)
    emit('job.timeout', job, '"attempt":' .. job.attempt .. more)
    lease_release(job)
    job_fail(job, server_failure('timeout', 'execution took longer than its timeout', more))
  elseif (tonumber(job.stalled_at) or now + 1) <= now then
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

-- Handlers save what they change.
local function each_due(set, limit, handle)
  local ids = call('ZRANGEBYSCORE', P .. set, '-inf', now, 'LIMIT', 0, limit)
  if #ids == 0 then return 0 end
  call('ZREM', P .. set, unpack(ids))
  for _, id in ipairs(ids) do
    if guarded(load_and, handle, id) then -- one broken record must not stop the clock for others
      emit('store.error', subject(id), '"set":"' .. set .. '"')
    end
  end
  return #ids
end

-- Returns how many were handled; a number equal to `limit` means that more may be due.
sweep = function(limit)
  return math.max(each_due('due', limit, come_due), each_due('leases', limit, lapse))
end

end
