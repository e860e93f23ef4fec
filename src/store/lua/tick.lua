-- What is due everywhere: schedules, retries, expiries, leases, dead workers, workflows' next jobs, limits that have room again.
--
-- ARGV[9…] most jobs to handle of each kind, 1 to tell again which queues have something ready, because a signal may be lost
-- Returns  {1 if more is due and the caller should call again at once, else 0, notes for metrics}

local function bury(job)
  job_abandoned(job, 'worker_death', 'the worker was silent for too long')
end

run = function()
  local limit = tonumber(ARGV[9])
  local handled = sweep(limit)
  for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - ARGV[8], 'LIMIT', 0, 10)) do
    handled = math.max(handled, (take_from(worker, limit, 'error', bury)))
  end
  handled = math.max(handled, workflows_catch_up(limit))
  local all_awake = wake_due()
  starve()
  if ARGV[10] == '1' then
    for _, queue in ipairs(call('ZRANGE', LIVE, 0, 63)) do signal('ready ' .. queue) end
  end
  commit()
  return {(handled >= limit or not all_awake) and 1 or 0, notes}
end
