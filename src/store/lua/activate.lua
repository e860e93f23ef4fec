-- Makes a pending job available.
--
-- ARGV     id
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

local job = job_load(arg())
if not job then return {'missing'} end
if job.state ~= 'pending' then return {'conflict', job.state, ''} end
job_set(job, 'activated', now)
job_make_available(job)
job_save(job)
emit('job.enqueued', job, '"state":"available"')
commit()
return {'ok', job_view(job), 'pending'}
