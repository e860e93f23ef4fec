-- Makes a pending job available.
--
-- ARGV[9…] id, op
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

local job = job_load(ARGV[9])
if not job then return {'missing'} end
if job.op == ARGV[10] then return {'ok', job_view(job), 'pending'} end
if job.state ~= 'pending' then return {'conflict', job.state, ''} end
job.activated, job.op = now_text, ARGV[10]
job_make_available(job)
job_save(job)
emit('job.enqueued', job, '"state":"available"')
commit()
return {'ok', job_view(job), 'pending'}
