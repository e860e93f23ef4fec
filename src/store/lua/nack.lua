-- Fails or hands back active jobs.
--
-- ARGV[9…] requests; for each: id, worker or '', op, 1 to hand back unharmed, history entry (JSON members),
--          error (JSON object), classes, verdict, 1 if retryable
-- Returns  {{'ok', job view} or {'missing'} or {'conflict', state, holder or ''} or {'error', text}, …}

local function nack(id, worker, op, requeue, failure)
  local job, result_instead = job_to_answer(id, worker, op)
  if not job then return result_instead end
  if requeue then
    lease_hand_back(job)
  else
    lease_release(job)
    job_fail(job, failure)
  end
  return {'ok', job_view(job)}
end

local answers, at = {}, 10
for request = 1, tonumber(ARGV[9]) do
  local failure = {entry = ARGV[at + 4], error = ARGV[at + 5], classes = ARGV[at + 6], verdict = ARGV[at + 7],
    retryable = ARGV[at + 8] == '1'}
  answers[request] = guarded(nack, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] == '1', failure)
  at = at + 9
end
commit()
return answers
