-- Part: whether a lane may give a job now, and what becomes of it where a limit says no.

-- Whether this call ended early; whether the script knows nothing of limits.
local unfinished, is_short = nil, false
local lane_passes, limits_of

do -- a script has room for 200 locals

local PARKED_A_CALL, PUT_OFF_A_CALL = 64, 32
local parked_now, put_off_now

at_begin(function()
  unfinished, parked_now, put_off_now = false, 0, 0
end)

-- A lane that was ready holds nothing any more.
lane_drained = function(source, lane)
  if find(lane.name, ';', 1, true) then
    lane_left(source.queue, lane.name)
    for _, key in ipairs(lane_limits(source.queue, lane.name)) do stopped.limit_freed(key) end
  end
end

-- Keys of the limits that a lane is under, which its job is asked for three times.
limits_of = function(queue, lane)
  local keys = lane.limits
  if not keys then
    keys = lane_limits(queue, lane.name)
    lane.limits = keys
  end
  return keys
end

-- The first limit that stops a lane, why, from when on it may not, its number and what counts against it.
local function lane_stop(source, lane)
  local keys = limits_of(source.queue, lane)
  for place = 1, #keys do
    local limit = limit_open(keys[place])
    local room, why, at, number, current = limit_room(limit)
    if room <= 0 then return limit, why, at, number, current end
  end
end

-- Takes a stopped lane out of what may run: it waits for the limit. False if this call has parked enough.
local function lane_park(source, lane, limit, why, at, number, current)
  if parked_now >= PARKED_A_CALL then
    unfinished = true
    return false
  end
  parked_now = parked_now + 1
  local queue, name = source.queue, lane.name
  if lane.taken > 0 then lane_cut(lane) end
  call('ZREM', lane.set, name)
  source.lanes[name], source.parked = nil, true
  lane_left(queue, name)
  local tenant, score = lane_tenant(name), lane.start
  if tenant then score = lane_score(tonumber(string.sub(lane_level(name), 2)), stopped.limit_tag(limit, tenant)) end
  local owner = lane_owner(name)
  if owner then call('SADD', P .. 'asleep:' .. queue .. ':' .. owner, name) end
  call('HSET', P .. 'parked:' .. queue, name, limit.key)
  if not is_cap(limit.key) then held.begin(limit.key, why) end
  call('ZADD', P .. 'wait:' .. limit.key .. ':' .. queue, int(score), name)
  call('HINCRBY', limit.name .. ':at', 'w ' .. queue, '1')
  call('HINCRBY', limit.name, 'w', '1')
  call('HINCRBY', P .. 'state', 'parked', '1')
  if is_cap(limit.key) then call('ZADD', P .. 'caps', now_text, limit.key) end
  limit.waiting = limit.waiting + 1
  if at then stopped.wake_at(limit.key, at) end
  count_blocked(queue, name, call('ZCARD', lane.key))
  stopped.limit_exceeded(limit, why, number, current)
  -- Its place under its other limits is free for somebody else.
  for _, key in ipairs(lane_limits(queue, name)) do
    if key ~= limit.key and stopped.limit_freed(key) then source.freed = true end
  end
  return true
end

-- Jobs that do not want to wait for a limit are put off or dropped, a bounded number a call.
local function lane_put_off(source, lane, limit, why, number, current)
  local drops = find(lane.name, ';o=d', 1, true)
  if put_off_now < PUT_OFF_A_CALL then stopped.limit_exceeded(limit, why, number, current) end
  while lane.start and put_off_now < PUT_OFF_A_CALL do
    local id = lane_pop(lane, PUT_OFF_A_CALL)
    if not id then break end
    put_off_now = put_off_now + 1
    limits_count(limits_of(source.queue, lane), -1)
    local job = job_load(id)
    if job and drops then
      stopped.job_drop(job, limit)
    elseif job then
      stopped.job_put_off(job, stopped.lane_slot(source.queue, lane.name), limit, why)
    end
  end
  -- The call ends for a participant that has more to be put off: passed over, it would lose its turn. Other lanes wait for the next.
  source.parked, lane.skipped = true, true
end

-- Whether a lane may give a job; if not, it is out of the way. What a job says of limits is about its own: for a slot of its tenant it
-- waits like any other, and is not dropped.
lane_passes = function(source, lane)
  if not find(lane.name, ';', 1, true) then return true end
  local limit, why, at, number, current = lane_stop(source, lane)
  if not limit then return true end
  source.stopped_by = limit
  if find(lane.name, ';o=', 1, true) and string.byte(limit.key) ~= 33 then -- !
    lane_put_off(source, lane, limit, why, number, current)
  else
    lane_park(source, lane, limit, why, at, number, current)
  end
  return false
end

end
