-- Decides if limits let a lane give a job, and parks or postpones it if not.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local held_time = require('limits/held_time')
local lanes = require('limits/lanes')
local job_module = require('queue/job')
local quota = require('limits/quota')
local park = require('limits/park')
local source_module = require('dispatch/source')
local runtime = require('lib/runtime')

local on_begin, int = runtime.on_begin, runtime.int
local is_tenant_limit, lane_limits, lane_score = lane_module.is_tenant_limit, lane_module.limits, lane_module.score
local count_blocked, lane_left, lane_level = lanes.count_blocked, lanes.lane_left, lanes.lane_level
local lane_owner, lane_tenant, limits_count = lanes.lane_owner, lanes.lane_tenant, lanes.limits_count
local job_load = job_module.load
local limit_open, limit_room = quota.limit_open, quota.limit_room
local lane_cut, lane_pop = source_module.lane_cut, source_module.lane_pop
local call = redis.call
local find = string.find

local M = {}

M.unfinished = nil -- true if this call ends early and should be repeated at once
local PARKED_A_CALL, POSTPONED_A_CALL = 64, 32
local parked_now, postponed_now

on_begin(function()
  M.unfinished, parked_now, postponed_now = false, 0, 0
end)

-- Handles that a ready lane is empty.
local function lane_drained(source, lane)
  if find(lane.name, ';', 1, true) then
    lane_left(source.queue, lane.name)
    for _, key in ipairs(lane_limits(source.queue, lane.name)) do park.wake_if_waiting(key) end
  end
end

-- Returns the keys of a lane's limits. They are needed three times per job, so they are cached.
local function limits_of(queue, lane)
  local keys = lane.limits
  if not keys then
    keys = lane_limits(queue, lane.name)
    lane.limits = keys
  end
  return keys
end

-- Returns the first limit that stops a lane, and what `limit_room` returns about it; nil if none
-- does.
local function lane_stop(source, lane)
  local keys = limits_of(source.queue, lane)
  for place = 1, #keys do
    local limit = limit_open(keys[place])
    local room, why, at, number, current = limit_room(limit)
    if room <= 0 then return limit, why, at, number, current end
  end
end

-- Parks a lane: removes it from those that may run and has it wait for the limit. Returns false if
-- this call has parked enough.
local function lane_park(source, lane, limit, why, at, number, current)
  if parked_now >= PARKED_A_CALL then
    M.unfinished = true
    return false
  end
  parked_now = parked_now + 1
  local queue, name = source.queue, lane.name
  if lane.taken > 0 then lane_cut(lane) end
  call('ZREM', lane.set, name)
  source.lanes[name], source.parked = nil, true
  lane_left(queue, name)
  local tenant, score = lane_tenant(name), lane.start
  if tenant then score = lane_score(tonumber(string.sub(lane_level(name), 2)), park.start_tag(limit, tenant)) end
  local owner = lane_owner(name)
  if owner then call('SADD', ctx.prefix .. 'asleep:' .. queue .. ':' .. owner, name) end
  call('HSET', ctx.prefix .. 'parked:' .. queue, name, limit.key)
  if not is_tenant_limit(limit.key) then held_time.begin(limit.key, why) end
  call('ZADD', ctx.prefix .. 'wait:' .. limit.key .. ':' .. queue, int(score), name)
  call('HINCRBY', limit.name .. ':at', 'w ' .. queue, '1')
  call('HINCRBY', limit.name, 'w', '1')
  call('HINCRBY', ctx.prefix .. 'state', 'parked', '1')
  if is_tenant_limit(limit.key) then call('ZADD', ctx.prefix .. 'limits:stopped', ctx.now_text, limit.key) end
  limit.waiting = limit.waiting + 1
  if at then park.wake_at(limit.key, at) end
  count_blocked(queue, name, call('ZCARD', lane.key))
  park.report_exceeded(limit, why, number, current)
  -- Its slot under its other limits is free for other lanes.
  for _, key in ipairs(lane_limits(queue, name)) do
    if key ~= limit.key and park.wake_if_waiting(key) then source.freed = true end
  end
  return true
end

-- Postpones or drops jobs that do not wait for a limit, a bounded number per call.
local function lane_postpone(source, lane, limit, why, number, current)
  local drops = find(lane.name, ';o=d', 1, true)
  if postponed_now < POSTPONED_A_CALL then park.report_exceeded(limit, why, number, current) end
  while lane.start and postponed_now < POSTPONED_A_CALL do
    local id = lane_pop(lane, POSTPONED_A_CALL)
    if not id then break end
    postponed_now = postponed_now + 1
    limits_count(limits_of(source.queue, lane), -1)
    local job = job_load(id)
    if job and drops then
      park.drop_job(job, limit)
    elseif job then
      park.postpone_job(job, park.reserve_start(source.queue, lane.name), limit, why)
    end
  end
  -- A participant with more jobs to postpone ends the call: if it were skipped, it would lose its
  -- turn. Other lanes wait for the next call.
  source.parked, lane.postponed = true, true
end

-- Returns true if a lane may give a job; otherwise parks or postpones it. A job's `on_limit`
-- applies to limits of its key and type. For a slot of its tenant, a job always waits and is never
-- dropped.
local function lane_passes(source, lane)
  if not find(lane.name, ';', 1, true) then return true end
  local limit, why, at, number, current = lane_stop(source, lane)
  if not limit then return true end
  source.stopped_by = limit
  if find(lane.name, ';o=', 1, true) and string.byte(limit.key) ~= 33 then -- !, a tenant's limit
    lane_postpone(source, lane, limit, why, number, current)
  else
    lane_park(source, lane, limit, why, at, number, current)
  end
  return false
end

M.lane_drained = lane_drained
M.lane_passes = lane_passes
M.limits_of = limits_of

return M
