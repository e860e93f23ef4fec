-- A worker says goodbye: its record goes, and what it still holds is available again at once.
--
-- ARGV     worker
-- Returns  {1 if it was known, number of jobs handed back, 1 if more remain}

local BOUND = 200

local worker = arg()
local key = P .. 'worker:' .. worker
local ids = call('SRANDMEMBER', key .. ':jobs', BOUND)
for _, id in ipairs(ids) do
  local job = job_load(id)
  if job and job.state == 'active' then
    lease_release(job)
    job_make_available(job, true)
    job_watch_expiry(job)
    job_save(job)
  else
    call('SREM', key .. ':jobs', id)
  end
end
local known = call('ZREM', P .. 'workers', worker)
call('UNLINK', key)
if known == 1 then emit('worker.stopped', {id = worker, type = '', queue = ''}, '"reason":"shutdown"') end
commit()
return {known, #ids, #ids == BOUND and 1 or 0}
