-- Completes active jobs.
--
-- ARGV[9…] requests; for each: id, worker or '', op, the one tenant whose jobs are there or '', 1 if there is a result, result
-- Returns  {{'ok', job view} or {'missing'} or {'conflict', state, holder or ''} or {'error', text}, …}

local function ack(id, worker, op, scope, has_result, result)
  local job, result_instead = job_to_answer(id, worker, op, scope)
  if not job then return result_instead end
  lease_release(job)
  unmark(job, 'e')
  if has_result then
    call('SET', P .. 'res:' .. id, result)
    mark(job, 'r')
  end
  job_finish(job, 'completed')
  did(job.tenant, 'completed', 1)
  emit('job.completed', job, '"state":"completed","attempt":' .. job.attempt
    .. ',"duration_ms":' .. int(now - tonumber(job.started)))
  return {'ok', job_view(job)}
end

run = function()
  local answers, at = {}, 10
  for request = 1, tonumber(ARGV[9]) do
    answers[request] = guarded(ack, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] == '1', ARGV[at + 5])
    at = at + 6
  end
  commit()
  return answers
end
