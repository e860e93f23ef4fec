-- Gives a dead letter another life: available at once, attempts counted anew, history kept.
--
-- ARGV[9]  id
-- Returns  {'ok', job view} or {'missing'}; envelopes

local id = ARGV[9]
local job = call('ZSCORE', P .. 'dead', id) and job_load(id)
if not job then return {{'missing'}, {}} end
call('ZREM', P .. 'dead', id)
call('ZREM', P .. 'finished:discarded', id)
for _, part in ipairs({'job:', 'env:', 'err:', 'res:'}) do call('PERSIST', P .. part .. id) end
job_set(job, 'attempt', 0)
for _, field in ipairs({'finished', 'dead', 'expired', 'started', 'retry_delay', 'next_retry'}) do
  if job[field] then job_set(job, field, nil) end
end
job_make_available(job)
job_save(job)
emit('dead_letter.retried', job, '"state":"available"')
commit()
return answer({'ok', job_view(job)})
