-- Part: a job's record and its moves between states.
--
-- job:ID     hash    what scripts decide on; an absent or empty field has its default
-- env:ID     string  the envelope as the client sent it, opaque to scripts (cjson would change `[]` and large integers)
-- err:ID     list    failed attempts, `attempt US ms US json`
-- res:ID     string  the result
-- due        zset    waiting jobs by the next time something happens to them: they become available, or are given up
-- leases     zset    active jobs by their next deadline: the truth about what runs
-- held       zset    `worker US id` of active jobs, all of score 0, read by range of worker
-- finished:S zset    jobs that ended in state S, by when; dead: those of them in the dead letter

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
  local size = #changed
  changed[size + 1] = field
  changed[size + 2] = type(value) == 'number' and int(value) or value or ''
end

local function job_save(job)
  if #job.changed > 0 then call('HSET', P .. 'job:' .. job.id, unpack(job.changed)) end
end

-- What Rust needs to show the job, as one text: id, record as it was, what this call changed, failures, result. Envelopes
-- of all views follow at the end of the answer, in the order of the views: see `answer`.
local viewed = {}

local function job_view(job)
  local failures = job.failures and concat(call('LRANGE', P .. 'err:' .. job.id, 0, -1), '\29') or ''
  local result = job.state == 'completed' and job.result and call('GET', P .. 'res:' .. job.id) or ''
  viewed[#viewed + 1] = P .. 'env:' .. job.id
  return concat({job.id, concat(job.flat, '\31'), concat(job.changed, '\31'), failures, result}, '\30')
end

-- A script's answer: its own results, and the envelopes of the jobs that they show.
local function answer(results)
  local envelopes = {}
  for first = 1, #viewed, 4000 do
    local portion = call('MGET', unpack(viewed, first, math.min(first + 3999, #viewed)))
    for _, envelope in ipairs(portion) do envelopes[#envelopes + 1] = envelope or '' end
  end
  return {results, envelopes}
end

local function job_move(job, state)
  count(job.queue, job.state, -1)
  count(job.queue, state, 1)
  job_set(job, 'state', state)
end

local function lowest(a, b, c, d)
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  local least = a
  if b and (not least or b < least) then least = b end
  if c and (not least or c < least) then least = c end
  if d and (not least or d < least) then least = d end
  return least
end

-- When a waiting job is given up: `expires` always, `ttl` before its first start, `total` over all attempts.
local function job_expiry(job)
  if job.expires or job.ttl or job.total then
    return lowest(job.expires, job.attempt == 0 and job.ttl or nil, job.total)
  end
end

-- Keeps the time of a waiting job's next change, if it has one: `at`, or that it is given up.
local function job_wait(job, at)
  local next_change = lowest(at, job_expiry(job))
  if next_change then gather('ZADD', P .. 'due', next_change, job.id) end
end

-- The sequence is new where the job joins the queue anew, and the old one where it was only handed back.
local function job_make_available(job, keeps_place)
  job_move(job, 'available')
  if not keeps_place then
    seq = seq + 1
    job_set(job, 'seq', seq)
  end
  job_set(job, 'enqueued', now_text)
  lane_push(job.queue, job.lane or 'p0', job.id, lane_score(tonumber(job.priority) or 0, tonumber(job.seq)))
  job_wait(job)
end

-- When the execution timeout strikes; heartbeats do not move it.
local function job_timeout(job)
  return tonumber(job.started) + (tonumber(job.timeout) or tonumber(ARGV[3])) + (tonumber(job.grace) or 0)
end

local function lease_deadline(job)
  return lowest(job.visible_until, job_timeout(job), job.stalled_at, job.total)
end

local function lease_release(job)
  gather('ZREM', P .. 'leases', job.id)
  if job.worker then
    gather('ZREM', P .. 'held', job.worker .. '\31' .. job.id)
    job_set(job, 'worker', nil)
  end
  if job.stalled_at then job_set(job, 'stalled_at', nil) end
end
