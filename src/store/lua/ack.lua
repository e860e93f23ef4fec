-- Completes active jobs.
--
-- ARGV     requests; for each: id, worker or '', op, 1 if there is a result, result
-- Returns  for each {'ok', job view} or {'missing'} or {'conflict', state, holder or ''} or {'error', text}

local function ack(id, worker, op, has_result, result)
  local job = job_load(id)
  if not job then return {'missing'} end
  if job.op == op then return {'ok', job_view(job)} end
  if job.state ~= 'active' then return {'conflict', job.state, ''} end
  if worker and job.worker and job.worker ~= worker then return {'conflict', job.state, job.worker} end
  lease_release(job)
  job_set(job, 'op', op)
  job_set(job, 'error', nil)
  if has_result then
    call('SET', P .. 'res:' .. id, result)
    job_set(job, 'result', 1)
  end
  job_finish(job, 'completed')
  job_save(job)
  emit('job.completed', job, '"state":"completed","attempt":' .. job.attempt
    .. ',"duration_ms":' .. now - tonumber(job.started or now))
  return {'ok', job_view(job)}
end

local answers = {}
for request = 1, number() do
  local id, worker, op, has_result, result = arg(), optional(), arg(), arg() == '1', arg()
  answers[request] = guarded(ack, id, worker, op, has_result, result)
end
commit()
return answers
