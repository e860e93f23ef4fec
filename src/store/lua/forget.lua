-- Deletes an ended job for good.
--
-- ARGV[9…] id, 1 if this call is sent again, so that a job that is gone was deleted by it, the one
--          tenant whose jobs are there or '', 1 for any ended job, or 0 for dead letters only
-- Returns  {'ok'} or {'missing'} or {'conflict', state, ''}

run = function()
  local id = ARGV[9]
  local is_dead = call('ZSCORE', P .. 'dead', id)
  local job = (is_dead or ARGV[12] == '1') and job_load(id, ARGV[11])
  if not job then return {ARGV[10] == '1' and 'ok' or 'missing'} end
  if job.finished == '' then return {'conflict', job.state, ''} end
  call('ZREM', P .. 'dead', id)
  call('ZREM', P .. 'finished:' .. job.state, id)
  job_erase(id)
  emit(is_dead and 'dead_letter.deleted' or 'job.deleted', job)
  commit()
  return {'ok'}
end
