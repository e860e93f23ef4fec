-- Fails or hands back active jobs.
--
-- ARGV     requests; for each: id, worker or '', op, 1 to hand back unharmed, history entry (JSON members),
--          error (JSON object), classes, verdict, 1 if retryable
-- Returns  for each {'ok', job view} or {'missing'} or {'conflict', state, holder or ''} or {'error', text}

local function nack(request)
  local job = job_load(request.id)
  if not job then return {'missing'} end
  if job.op == request.op then return {'ok', job_view(job)} end
  if job.state ~= 'active' then return {'conflict', job.state, ''} end
  if request.worker and job.worker and job.worker ~= request.worker then
    return {'conflict', job.state, job.worker}
  end
  lease_release(job)
  job_set(job, 'op', request.op)
  if request.requeue then
    job_make_available(job, true)
    job_watch_expiry(job)
  else
    job_fail(job, request)
  end
  job_save(job)
  return {'ok', job_view(job)}
end

local answers = {}
for index = 1, number() do
  local request = {id = arg(), worker = optional(), op = arg(), requeue = arg() == '1', entry = arg(), error = arg(),
    classes = arg(), verdict = arg(), retryable = arg() == '1'}
  answers[index] = guarded(nack, request)
end
commit()
return answers
