-- Hands out jobs under a lease. One job goes to one caller, however many ask at once.
--
-- ARGV     call id, 1 if this call is sent again, requests; for each: worker or '', the same as JSON, count,
--          visibility ms or '', fetch id or '', number of queues, queues in the order of preference
-- Returns  for each request {job view, …} or {'error', text}

local REPLAY_MS, RESEND_MS = 60000, 10000
local SWEPT, EXPIRED = 64, 64

local function serves(worker)
  local record = call('HMGET', P .. 'worker:' .. worker, 'state', 'directive')
  return (record[1] or 'running') == 'running' and (record[2] or 'running') == 'running'
end

local function lease(job, worker, visibility)
  if job_expiry(job) then call('ZREM', P .. 'expiry', job.id) end
  job_move(job, 'active')
  job_set(job, 'attempt', job.attempt + 1)
  job_set(job, 'started', now)
  job_set(job, 'worker', worker)
  local period = tonumber(visibility) or tonumber(job.visibility) or settings.visibility
  job_set(job, 'period', period)
  job_set(job, 'visible_until', now + period)
  job_set(job, 'timeout_at', now + (tonumber(job.timeout) or settings.timeout) + (tonumber(job.grace) or 0))
  call('ZADD', P .. 'leases', lease_deadline(job), job.id)
  emit('job.started', job, '"state":"active","attempt":' .. job.attempt .. ',"worker_id":' .. (job.worker_json or 'null'))
end

local function remember(key, ids, ms)
  call('SET', key, table.concat(ids, ' '), 'PX', ms)
end

local expired = 0

local function fetch(request)
  local views, ids = {}, {}
  if request.worker and not serves(request.worker) then return views end
  for _, queue in ipairs(request.queues) do
    while #views < request.count and expired < EXPIRED do
      local taken = lane_take(queue, request.count - #views)
      if #taken == 0 then break end
      for _, id in ipairs(taken) do
        local job = job_load(id)
        local gives_up_at = job and job_expiry(job)
        if job and gives_up_at and gives_up_at <= now then
          give_up(job)
          job_save(job)
          expired = expired + 1
        elseif job then
          job.worker_json = request.worker_json
          lease(job, request.worker, request.visibility)
          job_save(job)
          views[#views + 1] = job_view(job)
          ids[#ids + 1] = id
        end
      end
    end
  end
  if #ids > 0 then
    if request.worker then call('SADD', P .. 'worker:' .. request.worker .. ':jobs', unpack(ids)) end
    if request.fetch_id then remember(P .. 'fetch:' .. request.fetch_id, ids, REPLAY_MS) end
  end
  request.ids = ids
  return views
end

-- The same jobs again, as far as they are still held by the same worker.
local function replayed(ids, worker)
  local views = {}
  for id in string.gmatch(ids, '%S+') do
    local job = job_load(id)
    if job and job.state == 'active' and job.worker == worker then views[#views + 1] = job_view(job) end
  end
  return views
end

local function answer(request)
  local before = request.fetch_id and call('GET', P .. 'fetch:' .. request.fetch_id)
  if before then return replayed(before, request.worker) end
  return fetch(request)
end

local call_key, resent = P .. 'call:' .. arg(), arg() == '1'
local requests = {}
for index = 1, number() do
  local request = {worker = optional(), worker_json = optional(), count = number(), visibility = optional(),
    fetch_id = optional(), queues = {}}
  for position = 1, number() do request.queues[position] = arg() end
  requests[index] = request
end

local first = resent and call('GET', call_key)
local answers, record = {}, {}
if first then
  local index = 0
  for ids in string.gmatch(first, '([^,]*),') do
    index = index + 1
    answers[index] = replayed(ids, requests[index].worker)
  end
  return answers
end

sweep(SWEPT)
local found = false
for index, request in ipairs(requests) do
  answers[index] = guarded(answer, request)
  local ids = request.ids or {}
  found = found or #ids > 0
  record[index] = table.concat(ids, ' ') .. ','
end
if found then call('SET', call_key, table.concat(record), 'PX', RESEND_MS) end
commit()
return answers
