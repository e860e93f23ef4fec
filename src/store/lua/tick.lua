-- What is due everywhere: schedules, retries, expiries, leases, dead workers, workflows' next jobs, limits that have room again.
--
-- ARGV[9…] most jobs to handle of each kind, 1 to tell again which queues have something ready, because a signal may be lost
-- Returns  {1 if more is due and the caller should call again at once, else 0, notes for metrics}

local function bury(job)
  job_abandoned(job, 'worker_death', 'the worker was silent for too long')
end

run = function()
  local limit = tonumber(ARGV[9])
  local handled = clock_step.shift(limit)
  handled = math.max(handled, sweep(limit))
  for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - ARGV[8], 'LIMIT', 0, 10)) do
    handled = math.max(handled, (take_from(worker, limit, 'error', bury)))
  end
  handled = math.max(handled, workflows.catch_up(limit))
  -- Other quotas hold for whole tiers: whoever waits for a tenant's limit is looked at anew, a portion a call.
  local cursor = call('GET', P .. 'rouse')
  if cursor then
    local found = call('ZSCAN', P .. 'caps', cursor, 'COUNT', 200)
    for position = 1, #found[2], 2 do call('ZADD', WAKES, now_text, found[2][position]) end
    if found[1] == '0' then call('UNLINK', P .. 'rouse') else call('SET', P .. 'rouse', found[1]) end
  end
  local all_awake = wake_due()
  starve()
  -- Fetches that were given up: the last of them is no longer on its way.
  local given_up = state.recalled and tonumber(match(state.recalled, '(%d+)$'))
  if given_up and now - given_up > 600000 then call('HDEL', P .. 'state', 'recalled') end
  if ARGV[10] == '1' then
    -- So that a step back is known for what it is on a server that is idle, too. A full Redis may refuse it.
    redis.pcall('HSET', P .. 'state', 'clock', now_text)
    for _, queue in ipairs(call('ZRANGE', LIVE, 0, 63)) do signal('ready ' .. queue) end
  end
  commit()
  return {(handled >= limit or not all_awake) and 1 or 0, notes}
end
