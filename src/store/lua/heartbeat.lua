-- A sign of life: keeps the worker's record, extends the reservations it names, and tells it what to do.
--
-- ARGV     worker, state it reports or '', visibility ms or '', 1 to honour test directives, number of record fields,
--          names and values, number of job ids, ids
-- Returns  {directive, now, {extended id, …}, {cancelled id, …}}

local RANK = {running = 0, quiet = 1, terminate = 2}

local worker, reported, visibility, testing = arg(), optional(), optional(), arg() == '1'
local key = P .. 'worker:' .. worker
local record = {'seen', now, 'state', reported or 'running'}
for _ = 1, number() * 2 do record[#record + 1] = arg() end
local directive = call('HGET', key, 'directive') or 'running'
if call('EXISTS', key) == 0 then
  record[#record + 1] = 'since'
  record[#record + 1] = now
  emit('worker.started', {id = worker, type = '', queue = ''})
end
call('HSET', key, unpack(record))
call('ZADD', P .. 'workers', now, worker)

local extended, cancelled = {}, {}
for _ = 1, number() do
  local id = arg()
  local job = job_load(id)
  if job and job.state == 'active' and (not job.worker or job.worker == worker) then
    local period = tonumber(visibility) or tonumber(job.period) or settings.visibility
    job_set(job, 'visible_until', now + period)
    if job.beat then job_set(job, 'stalled_at', now + tonumber(job.beat)) end
    call('ZADD', P .. 'leases', lease_deadline(job), id)
    job_save(job)
    extended[#extended + 1] = id
    emit('job.heartbeat', job, '"attempt":' .. job.attempt .. ',"visible_until":' .. stamp(job.visible_until))
    local asked = testing and job.directive
    if asked and (RANK[asked] or 0) > RANK[directive] then directive = asked end
  elseif job and job.state == 'cancelled' then
    cancelled[#cancelled + 1] = id
  end
end
commit()
return {directive, now, extended, cancelled}
