-- What is due everywhere: schedules, retries, expiries, leases, dead workers.
--
-- ARGV[9]  most jobs to handle of each kind
-- Returns  1 if more is due and the caller should call again at once, else 0

local function bury(job)
  job_abandoned(job, 'worker_death', 'the worker was silent for too long')
end

local limit = tonumber(ARGV[9])
local handled = sweep(limit)
for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - ARGV[8], 'LIMIT', 0, 10)) do
  handled = math.max(handled, (take_from(worker, limit, 'error', bury)))
end
commit()
return handled >= limit and 1 or 0
