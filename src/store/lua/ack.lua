-- Completes active jobs.
--
-- ARGV[9…] requests; for each: id, worker or '', op, 1 if there is a result, result
-- Returns  {{'ok', job view} or {'missing'} or {'conflict', state, holder or ''} or {'error', text}, …}, envelopes

local function ack(id, worker, op, has_result, result)
  local job = job_load(id)
  if not job then return {'missing'} end
  if job.op == op then return {'ok', job_view(job)} end
  if job.state ~= 'active' then return {'conflict', job.state, ''} end
  if worker ~= '' and job.worker and job.worker ~= worker then return {'conflict', job.state, job.worker} end
  lease_release(job)
  job_set(job, 'op', op)
  if job.error then job_set(job, 'error', nil) end
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

local answers, at = {}, 10
for request = 1, tonumber(ARGV[9]) do
  answers[request] = guarded(ack, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] == '1', ARGV[at + 4])
  at = at + 5
end
commit()
return answer(answers)
