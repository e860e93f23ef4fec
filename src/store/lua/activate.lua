-- Makes a pending job available: one that is staged at once, one that its client made so through staging if it is planned.
--
-- ARGV[9…] id, op, the one tenant whose jobs are there or ''
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

run = function()
  local job = job_load(ARGV[9], ARGV[11])
  if not job then return {'missing'} end
  if job.op == ARGV[10] then return {'ok', job_view(job), 'pending'} end
  -- Only a round hands jobs to a main queue that is not ours.
  if job.state ~= 'pending' or (job.push and marked(job, 's')) then return {'conflict', job.state, ''} end
  job.activated, job.op = now_text, ARGV[10]
  if marked(job, 's') then
    job_unstage(job)
    job_release(job)
  elseif job_admit(job) then
    emit('job.enqueued', job, '"state":"available"')
  end
  commit()
  return {'ok', job_view(job), 'pending'}
end
