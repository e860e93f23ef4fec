-- What is due everywhere: schedules, retries, expiries, leases, dead workers.
--
-- ARGV     most jobs to handle of each kind
-- Returns  1 if more is due and the caller should call again at once, else 0

local limit = number()

local function bury_worker(worker)
  local key = P .. 'worker:' .. worker
  local ids = call('SRANDMEMBER', key .. ':jobs', limit)
  for _, id in ipairs(ids) do
    local job = job_load(id)
    if job and job.state == 'active' then
      job_abandoned(job, 'worker_death', 'the worker was silent for too long')
      job_save(job)
    else
      call('SREM', key .. ':jobs', id)
    end
  end
  if #ids < limit then
    call('UNLINK', key)
    call('ZREM', P .. 'workers', worker)
    emit('worker.stopped', {id = worker, type = '', queue = ''}, '"reason":"error"')
  end
  return #ids
end

local handled = sweep(limit)
for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - settings.dead_after, 'LIMIT', 0, 10)) do
  handled = math.max(handled, bury_worker(worker))
end
commit()
return handled >= limit and 1 or 0
