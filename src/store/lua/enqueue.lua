-- Stores new jobs. Each request is all or nothing; requests of one call are independent.
--
-- ARGV     requests, then for each: op ('' where the server made the ids: then an id is proof enough), jobs,
--          1 if ids may exist already (sent by the client, or this is a resend);
--          for each job: id, envelope, queue, type, lane, priority, '' or 'pending', scheduled, expires, ttl, total,
--          number of further fields, and their names and values. Times are ms, or '+ms' from now.
-- Returns  for each request {'ok', created, {state, due or '', …}} or {'duplicate', index, id} or {'error', text}

local function time_of(text)
  if not text then return nil end
  if string.sub(text, 1, 1) == '+' then return now + tonumber(text) end
  return tonumber(text)
end

local function read_job()
  local job = {id = arg(), envelope = arg(), queue = arg(), type = arg(), lane = arg(), priority = number()}
  job.pending = optional()
  job.scheduled, job.expires, job.ttl, job.total =
    time_of(optional()), time_of(optional()), time_of(optional()), time_of(optional())
  job.more = {}
  for position = 1, number() * 2, 2 do
    local name, value = arg(), arg()
    job.more[position], job.more[position + 1] = name, value
    if name == 'trace' then job.trace = value end
  end
  return job
end

-- A request whose answer was lost is sent again with the same op: its jobs are there, and it gets the first answer.
local function replay(op, jobs)
  local answer = {}
  local created
  for index, job in ipairs(jobs) do
    local stored = call('HMGET', P .. 'job:' .. job.id, 'op', 'state', 'due', 'created')
    if stored[2] then
      if (stored[1] or '') ~= op then return {'duplicate', index - 1, job.id} end
      created = stored[4]
      answer[#answer + 1] = stored[2]
      answer[#answer + 1] = stored[3] or ''
    end
  end
  return created and {'ok', created, answer}
end

local function store(op, job)
  local state = 'available'
  if job.pending then
    state = 'pending'
  elseif job.scheduled and job.scheduled > now then
    state = 'scheduled'
  end
  local record = job.more
  local function put(name, value)
    record[#record + 1] = name
    record[#record + 1] = value
  end
  put('state', state)
  put('queue', job.queue)
  put('type', job.type)
  put('lane', job.lane)
  put('created', now)
  if op ~= '' then put('op', op) end
  if job.priority ~= 0 then put('priority', job.priority) end
  if job.scheduled then put('due', job.scheduled) end
  if job.expires then put('expires', job.expires) end
  if job.ttl then put('ttl', job.ttl) end
  if job.total then put('total', job.total) end
  if state == 'available' then
    local sequence = next_seq()
    put('seq', sequence)
    lane_push(job.queue, job.lane, job.id, lane_score(job.priority, sequence))
    emit('job.enqueued', job, '"state":"available"')
  elseif state == 'scheduled' then
    call('ZADD', P .. 'due', job.scheduled, job.id)
    emit('job.scheduled', job, '"state":"scheduled","scheduled_at":' .. stamp(job.scheduled))
  end
  call('HSET', P .. 'job:' .. job.id, unpack(record))
  call('SET', P .. 'env:' .. job.id, job.envelope)
  job.attempt = 0
  job_watch_expiry(job)
  count(job.queue, state, 1)
  return state
end

local function enqueue(op, jobs, may_exist)
  local first = may_exist and replay(op, jobs)
  if first then return first end
  local answer = {}
  for _, job in ipairs(jobs) do
    answer[#answer + 1] = store(op, job)
    answer[#answer + 1] = job.scheduled or ''
  end
  return {'ok', now, answer}
end

local answers = {}
for request = 1, number() do
  local op, jobs, total, may_exist = arg(), {}, number(), arg() == '1'
  for index = 1, total do jobs[index] = read_job() end
  answers[request] = guarded(enqueue, op, jobs, may_exist)
end
for queue in pairs(counts) do call('HSETNX', P .. 'queues', queue, now) end
commit()
return answers
