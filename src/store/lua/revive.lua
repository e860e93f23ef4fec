-- Gives a dead letter another life: available at once, attempts counted anew, history kept.
--
-- ARGV[9]  id
-- Returns  {'ok', job view} or {'missing'}

local id = ARGV[9]
local job = call('ZSCORE', P .. 'dead', id) and job_load(id)
if not job then return {'missing'} end
call('ZREM', P .. 'dead', id)
call('ZREM', P .. 'finished:discarded', id)
for _, part in ipairs({'env:', 'err:', 'res:'}) do call('PERSIST', P .. part .. id) end
job.attempt, job.finished, job.started, job.retry_delay, job.next_retry = 0, '', '', '', ''
unmark(job, 'd')
unmark(job, 'x')
job_make_available(job)
job_save(job)
emit('dead_letter.retried', job, '"state":"available"')
commit()
return {'ok', job_view(job)}
