-- Cancels a job that has not ended.
--
-- ARGV[9…] id, op, the one tenant whose jobs are there or '', 1 unless a worker has it
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

run = function()
  local job = job_load(ARGV[9], ARGV[11])
  if not job then return {'missing'} end
  if job.op == ARGV[10] then return {'ok', job_view(job), ''} end
  if job.finished ~= '' or ARGV[12] == '1' and job.state == 'active' then return {'conflict', job.state, ''} end
  local previous = job.state
  job.op = ARGV[10]
  job_cancel(job)
  commit()
  return {'ok', job_view(job), previous}
end
