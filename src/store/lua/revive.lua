-- Gives a dead letter another life: available at once, attempts counted anew, history kept.
--
-- ARGV[9…] id, op
-- Returns  {'ok', job view} or {'missing'}

run = function()
  local id = ARGV[9]
  local job = job_load(id)
  if job and job.op == ARGV[10] then return {'ok', job_view(job)} end
  if not job or not call('ZSCORE', P .. 'dead', id) then return {'missing'} end
  call('ZREM', P .. 'dead', id)
  call('ZREM', P .. 'finished:discarded', id)
  for _, part in ipairs({'env:', 'err:', 'res:', 'par:'}) do call('PERSIST', P .. part .. id) end
  job.op = ARGV[10]
  -- Its budgets of time were for its first life, and are over.
  for _, name in ipairs({'ttl', 'total'}) do job_set(job, name) end
  job.attempt, job.finished, job.started, job.retry_delay, job.next_retry = 0, '', '', '', ''
  unmark(job, 'd')
  unmark(job, 'x')
  job_admit(job, true)
  emit('dead_letter.retried', job, '"state":"' .. job.state .. '"')
  commit()
  return {'ok', job_view(job)}
end
