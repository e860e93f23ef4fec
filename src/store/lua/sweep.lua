-- Part: everything that happens because time has passed. FETCH runs it lazily and the tick runs it for all.

local function each_due(set, limit, handle)
  local ids = call('ZRANGEBYSCORE', P .. set, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    call('ZREM', P .. set, id)
    local job = job_load(id)
    local failed = job and guarded(handle, job)
    if failed then
      emit('store.error', job, '"set":"' .. set .. '"') -- one broken record must not stop the clock for all others
    elseif job then
      job_save(job)
    end
  end
  return #ids
end

local function come_due(job)
  if job.state ~= 'scheduled' and job.state ~= 'retryable' then return end
  local was = job.state
  job_make_available(job)
  if was == 'scheduled' then emit('job.enqueued', job, '"state":"available"') end
end

local function give_up(job)
  local kind, event = 'expired', 'job.expired'
  if tonumber(job.total) and tonumber(job.total) <= now then
    kind, event = 'total_timeout', 'job.total_timeout'
  elseif tonumber(job.ttl) and job.attempt == 0 and tonumber(job.ttl) <= now then
    kind, event = 'enqueue_ttl_expired', 'job.ttl_expired'
  end
  job_detach(job)
  local failure = server_failure(kind, 'not finished in time')
  record_failure(job, failure.entry)
  job_set(job, 'expired', 1)
  emit(event, job, '"created_at":' .. stamp(job.created) .. ',"expired_at":' .. stamp(now) .. ',"ttl_ms":' .. now - job.created)
  discard(job, false, failure.error)
end

local function expire(job)
  if job.state == 'active' or not job_expiry(job) then return end
  if job_expiry(job) > now then return job_watch_expiry(job) end
  give_up(job)
end

local function seconds(ms)
  return string.format('%.3f', ms / 1000)
end

local function lapse(job)
  if job.state ~= 'active' then return end
  local deadline = lease_deadline(job)
  if deadline and deadline > now then
    call('ZADD', P .. 'leases', deadline, job.id)
    return
  end
  local function past(field) return tonumber(job[field]) and tonumber(job[field]) <= now end
  local ran = now - tonumber(job.started)
  if past('total') then
    give_up(job)
  elseif past('timeout_at') then
    local limit = tonumber(job.timeout_at) - tonumber(job.started)
    local more = ',"timeout_kind":"execution","limit_seconds":' .. seconds(limit) .. ',"elapsed_seconds":' .. seconds(ran)
    emit('job.timeout', job, '"attempt":' .. job.attempt .. more)
    lease_release(job)
    job_fail(job, server_failure('timeout', 'execution took longer than its timeout', more))
  elseif past('stalled_at') then
    emit('job.stalled', job, '"attempt":' .. job.attempt .. ',"timeout_kind":"heartbeat"')
    lease_release(job)
    job_fail(job, server_failure('stalled', 'no heartbeat within heartbeat_timeout'))
  else
    job_abandoned(job, 'visibility_timeout', 'the worker neither finished nor extended its reservation')
  end
end

-- Returns how many were handled; a number equal to `limit` in any of the three means that more may be due.
local function sweep(limit)
  return math.max(each_due('due', limit, come_due), each_due('expiry', limit, expire), each_due('leases', limit, lapse))
end
