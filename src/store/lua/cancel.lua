-- Cancels a job that has not ended.
--
-- ARGV     id
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

local job = job_load(arg())
if not job then return {'missing'} end
if job.state == 'completed' or job.state == 'cancelled' or job.state == 'discarded' then
  return {'conflict', job.state, ''}
end
local previous = job.state
job_detach(job)
job_finish(job, 'cancelled')
job_save(job)
emit('job.cancelled', job, '"state":"cancelled","previous_state":"' .. previous .. '"')
commit()
return {'ok', job_view(job), previous}
