-- Deletes a dead letter for good.
--
-- ARGV[9…] id, 1 if this call is sent again, so that a job that is gone was deleted by it, the one
--          tenant whose jobs are there or ''
-- Returns  {'ok'} or {'missing'}

run = function()
  local id = ARGV[9]
  local job = call('ZSCORE', P .. 'dead', id) and job_load(id, ARGV[11])
  if not job then return {ARGV[10] == '1' and 'ok' or 'missing'} end
  call('ZREM', P .. 'dead', id)
  call('ZREM', P .. 'finished:discarded', id)
  job_erase(id)
  emit('dead_letter.deleted', job)
  commit()
  return {'ok'}
end
