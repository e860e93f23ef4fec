-- Part: the one door for new jobs. A request is all or nothing.
--
-- A request is: op ('' where the server made the ids: then an id is proof enough), jobs, 1 if ids may exist already (sent by the
-- client, or this is a resend), version of the plan rules it was read under; for each job: id, queue, type, lane, priority, further
-- fields as `name US value US …`, envelope. Among the further fields are `pending`, and times `due`, `expires`, `ttl`, `total` in ms,
-- or as '+ms' from now. A planned job has `rule`, as the first of them, and `tenant`.
-- Its answer is `ok US created US state US due US state US due …`, `duplicate US index US id`, `stale` if other rules hold now,
-- `full US rule US most US staged`, `exists US index US id US state US key` if a unique job has a duplicate, `bound US queue US depth US
-- most US strategy` if a queue is full, `rich` if only the longest form of the script can tell, or `error US text`. The state of a job
-- that was not stored, because its like exists, is `=` and the id of that one. Behind `ok` and all jobs may stand `! US queue US depth
-- US most` of a queue that fills up.

local WORDS = 7
-- A longer envelope has a key of its own, so that it is not copied whenever the job's state changes.
local LONG = 8192
local pusher -- whose job the request brought before
local TIMES = {due = true, expires = true, ttl = true, total = true}

-- Further fields as they are stored, times made absolute.
local function read_more(job, more)
  local parts = {}
  for name, value in string.gmatch(more, '([^\31]+)\31([^\31]*)\31') do
    if TIMES[name] then
      local at = string.sub(value, 1, 1) == '+' and now + tonumber(value) or tonumber(value)
      job[name], value = at, int(at)
    else
      job[name] = value
    end
    if name ~= 'pending' then parts[#parts + 1] = name .. '\31' .. value .. '\31' end
  end
  return concat(parts)
end

-- A request whose answer was lost is sent again with the same op: its jobs are there, and it gets the first answer.
local function replay(op, first, jobs)
  local parts, created = {}, nil
  for index = 0, jobs - 1 do
    local stored = job_load(ARGV[first + index * WORDS])
    if stored then
      if op ~= '' and stored.by ~= op then return 'duplicate\31' .. index .. '\31' .. stored.id end
      created = stored.created
      parts[index + 1] = stored.state .. '\31' .. (stored.due or '')
    else
      -- Gone since, if the others are there; or never stored, because its like was there.
      local existing = door.existing and door.existing(ARGV[first + index * WORDS + 5])
      parts[index + 1] = existing and '=' .. existing.id .. '\31' or 'completed\31'
    end
  end
  return created and 'ok\31' .. created .. '\31' .. concat(parts, '\31')
end

local function store(op, at)
  local id, queue, type, lane = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local more, envelope = ARGV[at + 5], ARGV[at + 6]
  local job = {id = id, type = type, queue = queue, attempt = 0}
  local state, place, marks = 'available', '', ''
  if more ~= '' then
    more = read_more(job, more)
    if job.unique then
      local existing
      more, existing = door.take(job, more)
      if existing then return '=' .. existing.id .. '\31' end
    end
    if job.pending then
      state = 'pending'
    elseif job.due and job.due > now then
      state = 'scheduled'
    end
    job_wait(job, state == 'scheduled' and job.due or nil)
  end
  if state == 'available' and job.rule and job_stage(job) then
    state, place, marks = 'pending', job.seq, 's'
    emit('job.staged', job, '"state":"pending"')
  elseif state == 'available' then
    seq = seq + 1
    place = int(seq)
    local entry = lane_push(queue, tenant_lane(queue, lane, job.tenant, job.rule), id, lane_score(tonumber(ARGV[at + 4]), seq))
    entry.rule = job.rule
    emit('job.enqueued', job, '"state":"available"')
  elseif state == 'scheduled' then
    emit('job.scheduled', job, '"state":"scheduled","scheduled_at":' .. stamp(int(job.due)))
  end
  -- A limit without a key is the queue's own.
  if job.quota then limit_renew(match(lane, ';k=([^;]+)') or 'queue:' .. queue, job.quota) end
  if #envelope > LONG then
    call('SET', P .. 'env:' .. id, envelope)
    more, envelope = more .. 'apart\0311\31', ''
  end
  if op ~= '' then more = more .. 'by\31' .. op .. '\31' end
  local enqueued = state == 'available' and now_text or ''
  -- The fields of `job_save`, in their order.
  call('SET', P .. 'job:' .. id, state .. '\0310\31' .. place .. '\31' .. now_text .. '\31' .. enqueued
    .. '\31\31\31\31\31\31\31\31\31\31\31\31' .. marks .. '\30'
    .. queue .. '\31' .. type .. '\31' .. lane .. '\31' .. more .. '\30' .. envelope)
  count(queue, state, 1)
  if job.tenant then
    tally(job.tenant, state, 1)
    did(job.tenant, 'enqueued', 1)
    if job.tenant ~= pusher then did(job.tenant, 'pushes', 1) end
  end
  pusher = job.tenant
  return state .. '\31' .. (job.due and int(job.due) or '')
end

-- Whether a job would be available if no plan wanted it otherwise.
local function waits_now(more)
  local job = {}
  read_more(job, more)
  return not job.pending and not (job.due and job.due > now)
end

-- The first rule whose bound on staged jobs the request would exceed.
local function over_bound(first, jobs)
  local wanted = {}
  for index = 0, jobs - 1 do
    local more = ARGV[first + index * WORDS + 5]
    local rule = match(more, '^rule\31([^\31]+)\31')
    local plan = rule and plan_open(rule)
    if plan and plan.most and waits_now(more) then
      wanted[rule] = (wanted[rule] or 0) + 1
      if plan.staged + wanted[rule] > plan.most then
        return 'full\31' .. rule .. '\31' .. int(plan.most) .. '\31' .. int(plan.staged)
      end
    end
  end
end

-- Stores the jobs whose words begin at `first`.
local function enqueue(op, first, jobs, may_exist, version)
  local replayed = may_exist and replay(op, first, jobs)
  if replayed then return replayed end
  if version ~= (state[6] or '') then return 'stale' end
  local full = version ~= '' and over_bound(first, jobs)
  if full then return full end
  local conflict = door.conflict and door.conflict(first, jobs, WORDS)
  if conflict then return conflict end
  local pressure = ''
  if state[12] then
    if not door.refusal then return 'rich' end
    local refused, told = door.refusal(first, jobs, WORDS)
    if refused then return refused end
    pressure = told or ''
  end
  pusher = nil
  if jobs == 1 then return 'ok\31' .. now_text .. '\31' .. store(op, first) .. pressure end
  local parts = {}
  for index = 1, jobs do parts[index] = store(op, first + (index - 1) * WORDS) end
  return 'ok\31' .. now_text .. '\31' .. concat(parts, '\31') .. pressure
end

-- The answer to the request whose words begin at `at`, and where the next one begins.
local function enqueue_request(at)
  local jobs = tonumber(ARGV[at + 1])
  local result = guarded(enqueue, ARGV[at], at + 4, jobs, ARGV[at + 2] == '1', ARGV[at + 3])
  return type(result) == 'table' and concat(result, '\31') or result, at + 4 + jobs * WORDS
end

-- Queues spring into existence with their first job.
local function queues_note()
  settle()
  for queue in pairs(counts) do call('HSETNX', P .. 'queues', queue, now_text) end
end
