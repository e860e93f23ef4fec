-- Part: storing a new job, given its words: id, queue, type, lane, priority, further fields as `name US value US …`, envelope.
-- Among the further fields are `pending`, and times `due`, `expires`, `ttl`, `total` in ms, or as '+ms' from now. A planned job
-- has `rule`, as the first of them, and `tenant`.

local WORDS = 7
local job_store, over_bound

do -- a script has room for 200 locals

-- A longer envelope has a key of its own, so that it is not copied whenever the job's state changes.
local LONG = 8192
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

-- Stores the job whose words begin at `at`. Returns `state US due`.
job_store = function(op, words, at)
  local id, queue, type, lane = words[at], words[at + 1], words[at + 2], words[at + 3]
  local more, envelope = words[at + 5], words[at + 6]
  local job = {id = id, type = type, queue = queue, attempt = 0}
  local state, place, marks = 'available', '', ''
  if more ~= '' then
    more = read_more(job, more)
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
    local entry = lane_push(queue, tenant_lane(queue, lane, job.tenant, job.rule), id, lane_score(tonumber(words[at + 4]), seq))
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
  return state .. '\31' .. (job.due and int(job.due) or '')
end

-- Whether a job would be available if no plan wanted it otherwise.
local function waits_now(more)
  local job = {}
  read_more(job, more)
  return not job.pending and not (job.due and job.due > now)
end

-- The first rule whose bound on staged jobs so many jobs would exceed.
over_bound = function(words, first, jobs)
  local wanted = {}
  for index = 0, jobs - 1 do
    local more = words[first + index * WORDS + 5]
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

end
