-- Part: a job's record and its moves between states.
--
-- job:ID     hash    what scripts decide on; an absent or empty field has its default
-- env:ID     string  the envelope as the client sent it, opaque to scripts (cjson would change `[]` and large integers)
-- err:ID     list    failed attempts, `attempt US ms US json`
-- res:ID     string  the result
-- due        zset    scheduled and retryable jobs by the time they become available
-- expiry     zset    waiting jobs by the time they are given up
-- leases     zset    active jobs by their next deadline: the truth about what runs
-- worker:W:jobs  set     active jobs of worker W
-- finished:S zset    jobs that ended in state S, by when; dead: those of them in the dead letter

local HISTORY = 25

local function job_load(id)
  local flat = call('HGETALL', P .. 'job:' .. id)
  if #flat == 0 then return nil end
  local job = {id = id, flat = flat, changed = {}}
  for position = 1, #flat, 2 do
    if flat[position + 1] ~= '' then job[flat[position]] = flat[position + 1] end
  end
  job.attempt = tonumber(job.attempt) or 0
  return job
end

local function job_set(job, field, value)
  job[field] = value
  local changed = job.changed
  changed[#changed + 1] = field
  changed[#changed + 1] = value == nil and '' or value
end

local function job_save(job)
  if #job.changed > 0 then call('HSET', P .. 'job:' .. job.id, unpack(job.changed)) end
end

-- What Rust needs to show the job: the record as it was, what this call changed, envelope, failures and result.
local function job_view(job)
  local failures = job.failures and call('LRANGE', P .. 'err:' .. job.id, 0, -1) or {}
  local result = job.state == 'completed' and job.result and call('GET', P .. 'res:' .. job.id) or ''
  return {job.id, call('GET', P .. 'env:' .. job.id) or '', job.flat, job.changed, failures, result}
end

local function job_move(job, state)
  count(job.queue, job.state, -1)
  count(job.queue, state, 1)
  job_set(job, 'state', state)
end

local function lowest(...)
  local least
  for position = 1, select('#', ...) do
    local value = tonumber((select(position, ...)))
    if value and (not least or value < least) then least = value end
  end
  return least
end

-- When a waiting job is given up: `expires` always, `ttl` before its first start, `total` over all attempts.
local function job_expiry(job)
  return lowest(job.expires, job.attempt == 0 and job.ttl or nil, job.total)
end

local function job_watch_expiry(job)
  local at = job_expiry(job)
  if at then call('ZADD', P .. 'expiry', at, job.id) end
end

-- The sequence is new where the job joins the queue anew, and the old one where it was only handed back.
local function job_make_available(job, keeps_place)
  job_move(job, 'available')
  if not keeps_place then job_set(job, 'seq', next_seq()) end
  job_set(job, 'enqueued', now)
  lane_push(job.queue, job.lane, job.id, lane_score(tonumber(job.priority) or 0, tonumber(job.seq)))
end

local function lease_deadline(job)
  return lowest(job.visible_until, job.timeout_at, job.stalled_at, job.total)
end

local function lease_release(job)
  call('ZREM', P .. 'leases', job.id)
  if job.worker then call('SREM', P .. 'worker:' .. job.worker .. ':jobs', job.id) end
  for _, field in ipairs({'worker', 'visible_until', 'timeout_at', 'stalled_at'}) do
    if job[field] then job_set(job, field, nil) end
  end
end

-- Takes a waiting or active job out of whatever holds it.
local function job_detach(job)
  if job.state == 'available' then
    lane_remove(job.queue, job.lane, job.id)
  elseif job.state == 'active' then
    lease_release(job)
  elseif job.state ~= 'pending' then
    call('ZREM', P .. 'due', job.id)
  end
  if job_expiry(job) then call('ZREM', P .. 'expiry', job.id) end
end

local function job_keep_for(job, ms)
  ms = math.max(ms, 1) -- 0 would delete at once, and the save that follows would bring the record back without a TTL
  call('PEXPIRE', P .. 'job:' .. job.id, ms)
  call('PEXPIRE', P .. 'env:' .. job.id, ms)
  if job.failures then call('PEXPIRE', P .. 'err:' .. job.id, ms) end
  if job.result then call('PEXPIRE', P .. 'res:' .. job.id, ms) end
end

-- The end of a job: it is kept for its retention and then leaves no key behind.
local function job_finish(job, state, dead)
  job_move(job, state)
  job_set(job, 'finished', now)
  call('ZADD', P .. 'finished:' .. state, now, job.id)
  if dead then
    call('ZADD', P .. 'dead', now, job.id)
    job_set(job, 'dead', 1)
  end
  job_keep_for(job, dead and settings.dead_letter or settings[state])
end

local function job_erase(id)
  call('UNLINK', P .. 'job:' .. id, P .. 'env:' .. id, P .. 'err:' .. id, P .. 'res:' .. id)
end
