-- Compares what is counted with the leases, which are the truth about what runs. In portions; each thing is looked at as of
-- one moment, so that nothing that goes on meanwhile looks like a difference.
--
-- ARGV[9…] what to look at (`leases`, `limits`, `pools` or `queues`), cursor, 1 to mend what differs
-- Returns  {cursor for the next portion, or 0 if that was all, things compared, {what, name, counted, should be, …}}

local PORTION, MOST_TALLIED = 200, 5000

run = function()
  local what, mends = ARGV[9], ARGV[11] == '1'
  local compared, differences = 0, {}

  local function compare(kind, name, counted, real, mend)
    compared = compared + 1
    if counted == real then return end
    local at = #differences
    differences[at + 1], differences[at + 2], differences[at + 3], differences[at + 4] = kind, name, counted, real
    if mends then mend() end
  end

  -- The sets that a lease is to be in.
  local function sets_of(job)
    local sets = {}
    for _, key in ipairs(lane_limits(job.queue, job.lane)) do sets[#sets + 1] = P .. 'limit:' .. key .. ':run' end
    if job.pool ~= '' then sets[#sets + 1] = P .. 'pool:' .. job.pool .. ':run' end
    return sets
  end

  local function check_lease(id)
    local job = job_load(id)
    local is_active = job and job.state == 'active'
    compare('lease', id, 1, is_active and 1 or 0, function() call('ZREM', LEASES, id) end)
    if not is_active then return end
    for _, set in ipairs(sets_of(job)) do
      compare('slot', set .. ' ' .. id, call('SISMEMBER', set, id), 1, function() call('SADD', set, id) end)
    end
    if job.worker ~= '' then
      local member = job.worker .. '\31' .. id
      compare('held', id, call('ZSCORE', HELD, member) and 1 or 0, 1, function() call('ZADD', HELD, '0', member) end)
    end
  end

  -- Every member of a set of slots is a lease that belongs there.
  local function check_set(set, belongs)
    for _, id in ipairs(call('SRANDMEMBER', set, PORTION)) do
      local job = call('ZSCORE', LEASES, id) and job_load(id)
      local real = job and job.state == 'active' and belongs(job) and 1 or 0
      compare('slot', set .. ' ' .. id, 1, real, function() call('SREM', set, id) end)
    end
  end

  local function check_limit(key)
    local tenant, queue = match(key, '^tenant:(.*):queue:([^:]*)$')
    check_set(P .. 'limit:' .. key .. ':run', function(job)
      if tenant and job.queue == queue and (job.tenant or '_default') == tenant then return true end
      for _, own in ipairs(lane_limits(job.queue, job.lane)) do
        if own == key then return true end
      end
    end)
  end

  local function check_queue(queue, active)
    local counts = P .. 'counts:' .. queue
    local counted = call('HMGET', counts, 'active', 'blocked')
    if active then
      local real = active[queue] or 0
      compare('active', queue, tonumber(counted[1] or nil) or 0, real, function() call('HSET', counts, 'active', int(real)) end)
    end
    if call('HLEN', P .. 'parked:' .. queue) > MOST_TALLIED then return end
    local blocked = 0
    for _, lane in ipairs(call('HKEYS', P .. 'parked:' .. queue)) do
      blocked = blocked + call('ZCARD', P .. 'lane:' .. queue .. ':' .. lane)
    end
    compare('blocked', queue, tonumber(counted[2] or nil) or 0, blocked, function() call('HSET', counts, 'blocked', int(blocked)) end)
  end

  -- Active jobs by queue, where they are few enough to be counted in one call.
  local function tally()
    if call('ZCARD', LEASES) > MOST_TALLIED then return nil end
    local active = {}
    for _, id in ipairs(call('ZRANGE', LEASES, 0, -1)) do
      local job = job_load(id)
      if job then active[job.queue] = (active[job.queue] or 0) + 1 end
    end
    return active
  end

  local cursor = '0'
  if what == 'leases' or what == 'limits' then
    local set = what == 'leases' and LEASES or P .. 'limits'
    local found = call('ZSCAN', set, ARGV[10], 'COUNT', PORTION)
    cursor = found[1]
    for position = 1, #found[2], 2 do
      local check = what == 'leases' and check_lease or check_limit
      check(found[2][position])
    end
  elseif what == 'pools' then
    for _, name in ipairs(call('SMEMBERS', P .. 'pools')) do
      check_set(P .. 'pool:' .. name .. ':run', function(job) return job.pool == name end)
    end
  else
    local active = tally()
    for _, queue in ipairs(call('HKEYS', P .. 'queues')) do check_queue(queue, active) end
  end
  return {cursor, compared, differences}
end
