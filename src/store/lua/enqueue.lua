-- Stores new jobs. Each request is all or nothing; requests of one call are independent.
--
-- ARGV[9…] requests, then for each: op ('' where the server made the ids: then an id is proof enough), jobs,
--          1 if ids may exist already (sent by the client, or this is a resend);
--          for each job: id, envelope, queue, type, lane, priority, further fields as `name US value RS …`. Among them
--          `pending`, and times `due`, `expires`, `ttl`, `total` in ms, or as '+ms' from now.
-- Returns  for each request `ok US created US state US due US state US due …`, `duplicate US index US id` or `error US text`

local TIMES = {due = true, expires = true, ttl = true, total = true}

-- Further fields become members of the job, and are written into its record.
local function read_more(job, more, record)
  for name, value in string.gmatch(more, '([^\31]+)\31([^\30]*)\30') do
    if TIMES[name] then
      job[name] = string.sub(value, 1, 1) == '+' and now + tonumber(value) or tonumber(value)
      value = int(job[name])
    else
      job[name] = value
    end
    record[#record + 1] = name
    record[#record + 1] = value
  end
end

-- A request whose answer was lost is sent again with the same op: its jobs are there, and it gets the first answer.
local function replay(op, first, jobs)
  local parts, created = {}, nil
  for index = 0, jobs - 1 do
    local id = ARGV[first + index * 7]
    local stored = call('HMGET', P .. 'job:' .. id, 'op', 'state', 'due', 'created')
    if stored[2] then
      if (stored[1] or '') ~= op then return 'duplicate\31' .. index .. '\31' .. id end
      created = stored[4]
      parts[#parts + 1] = stored[2] .. '\31' .. (stored[3] or '')
    end
  end
  return created and 'ok\31' .. created .. '\31' .. concat(parts, '\31')
end

local function store(op, at)
  local id, queue, type, lane = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local priority, more = tonumber(ARGV[at + 5]), ARGV[at + 6]
  local record = {'state', 'available', 'queue', queue, 'type', type, 'created', now_text}
  local job = {id = id, type = type, queue = queue, attempt = 0}
  if lane ~= 'p0' then
    record[9], record[10] = 'lane', lane
    if priority ~= 0 then record[11], record[12] = 'priority', priority end
  end
  if op ~= '' then
    record[#record + 1] = 'op'
    record[#record + 1] = op
  end
  local state = 'available'
  if more ~= '' then
    read_more(job, more, record)
    if job.pending then
      state = 'pending'
    elseif job.due and job.due > now then
      state = 'scheduled'
    end
    record[2] = state
    job_wait(job, state == 'scheduled' and job.due or nil)
  end
  if state == 'available' then
    seq = seq + 1
    record[#record + 1] = 'seq'
    record[#record + 1] = int(seq)
    lane_push(queue, lane, id, lane_score(priority, seq))
    emit('job.enqueued', job, '"state":"available"')
  elseif state == 'scheduled' then
    emit('job.scheduled', job, '"state":"scheduled","scheduled_at":\29' .. int(job.due) .. '\29')
  end
  call('HSET', P .. 'job:' .. id, unpack(record))
  call('SET', P .. 'env:' .. id, ARGV[at + 1])
  count(queue, state, 1)
  return state .. '\31' .. (job.due and int(job.due) or '')
end

local function enqueue(op, first, jobs, may_exist)
  local replayed = may_exist and replay(op, first, jobs)
  if replayed then return replayed end
  if jobs == 1 then return 'ok\31' .. now_text .. '\31' .. store(op, first) end
  local parts = {}
  for index = 1, jobs do parts[index] = store(op, first + (index - 1) * 7) end
  return 'ok\31' .. now_text .. '\31' .. concat(parts, '\31')
end

local answers, at = {}, 10
for request = 1, tonumber(ARGV[9]) do
  local jobs = tonumber(ARGV[at + 1])
  local result = guarded(enqueue, ARGV[at], at + 3, jobs, ARGV[at + 2] == '1')
  answers[request] = type(result) == 'table' and concat(result, '\31') or result
  at = at + 3 + jobs * 7
end
for queue in pairs(counts) do call('HSETNX', P .. 'queues', queue, now_text) end
commit()
return answers
