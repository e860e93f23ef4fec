-- Makes a pending job available.
--
-- ARGV[9]  id
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

local job = job_load(ARGV[9])
if not job then return {'missing'} end
if job.state ~= 'pending' then return {'conflict', job.state, ''} end
job.activated = now_text
job_make_available(job)
job_save(job)
emit('job.enqueued', job, '"state":"available"')
commit()
return {'ok', job_view(job), 'pending'}
