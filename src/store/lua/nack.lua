-- Fails or hands back active jobs.
--
-- ARGV[9…] requests; for each: id, worker or '', op, the one tenant whose jobs are there or '', 1 to hand back unharmed, history entry (JSON members),
--          error (JSON object), classes, verdict, 1 if retryable, ms until which the limit of the job's key is held or '', why as JSON
-- Returns  {job view or {'missing'} or {'conflict', state, holder or ''} or {'error', text}, …}

-- What a handler learns from others about a limit holds that limit alone. Of two holds the longer wins.
local LONGEST_HOLD = 86400000

local function hold(job, hold_until, why)
  local key = match(job.lane, ';k=([^;]+)') or job.quota and '#' .. job.queue
  hold_until = math.min(hold_until, now + LONGEST_HOLD)
  if not key or hold_until <= now then return end
  local name = P .. 'limit:' .. key
  local steady_until = hold_until + steady - now -- see `quota.lua`
  if steady_until <= (tonumber(call('HGET', name, 'hold') or nil) or 0) then return end
  call('HSET', name, 'hold', int(steady_until))
  call('ZADD', WAKES, 'LT', int(hold_until), key)
  emit('rate_limit.dynamic_adjusted', subject(''), '"key":"' .. limit_label(key) .. '","until":' .. stamp(int(hold_until)) .. ',"reason":' .. why)
end

local function nack(id, worker, op, scope, requeue, failure)
  local job, result_instead = job_to_answer(id, worker, op, scope)
  if not job then return result_instead end
  if failure.hold then hold(job, failure.hold, failure.why) end
  if requeue then
    lease_hand_back(job)
  else
    lease_release(job)
    job_fail(job, failure)
  end
  return job_view(job)
end

run = function()
  local answers, at = {}, 10
  for request = 1, tonumber(ARGV[9]) do
    local failure = {entry = ARGV[at + 5], error = ARGV[at + 6], classes = ARGV[at + 7], verdict = ARGV[at + 8],
      retryable = ARGV[at + 9] == '1', hold = tonumber(ARGV[at + 10]), why = ARGV[at + 11]}
    answers[request] = guarded(nack, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] == '1', failure)
    at = at + 12
  end
  commit()
  return answers
end
