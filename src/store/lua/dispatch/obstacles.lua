-- Finds the pause and the limits that keep a job of fairgate's own queues from being handed out.
-- Read-only: `commands/waiting_for` and `commands/explain` report what it finds.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local lanes = require('limits/lanes')
local job_module = require('queue/job')
local quota = require('limits/quota')
local level = require('fairness/level')

local is_tenant_limit, lane_base, lane_limits = lane_module.is_tenant_limit, lane_module.base, lane_module.limits
local lane_level, lane_parked = lanes.lane_level, lanes.lane_parked
local is_limited = job_module.is_limited
local limit_open, limit_room = quota.limit_open, quota.limit_room
local tenant_lane, type_lane = level.tenant_lane, level.type_lane
local call = redis.call
local match = string.match

-- Returns the lane of an available job. Its suffix depends on the settings at the time it was
-- enqueued. Nil if the job is in none.
local function lane_of(job)
  local tenant, base = '=' .. (job.tenant or '_default'), lane_base(job.lane)
  for _, suffix in ipairs({'', ';t' .. tenant, ';s=1;t' .. tenant, ';b' .. tenant}) do
    if call('ZSCORE', ctx.prefix .. 'lane:' .. job.queue .. ':' .. base .. suffix, job.id) then return base .. suffix end
  end
end

-- Returns the lane that a job would enter now.
local function next_lane(job)
  return tenant_lane(job.queue, type_lane(job.lane, job.type), job.tenant, job.rule)
end

-- Returns the time since which a queue is paused, or nil.
local function paused_since(queue)
  return tonumber(ctx.state.paused and call('HGET', ctx.prefix .. 'paused', queue) or nil)
end

-- Returns true if the next fetch wakes a lane that waits for a limit which has room again: no more
-- lanes go first than there is room for (`limits/park`).
local function wakes_next(limit, queue, lane, room)
  local rank = call('ZRANK', ctx.prefix .. 'wait:' .. limit.key .. ':' .. queue, lane)
  local ready = is_tenant_limit(limit.key) and 0 or tonumber(call('HGET', limit.name .. ':at', 'r ' .. lane_level(lane) .. ' ' .. queue) or nil) or 0
  return not rank or rank + ready < room
end

-- Describes a limit: if it blocks the lane, by which strategy, until when at the latest, and since
-- when it has blocked without a break. `most` and `current` are what it compares.
local function limit_state(limit, queue, lane, is_parked)
  local room, why, at, most, current = limit_room(limit)
  local is_blocking = room <= 0 or is_parked and not wakes_next(limit, queue, lane, room)
  local strategy, periods = match(limit.stored.held or '', '^(%S+) (.*)$')
  local since = match(periods or '', '(%d+)%-;$') or (is_parked or limit.waiting > 0) and limit.stored.since
  return {limit = limit, is_blocking = is_blocking, room = room, strategy = why or strategy or 'concurrency', at = at, most = most,
    current = current, since = is_blocking and tonumber(since or nil) or nil}
end

-- Returns the states of all limits of a lane, in the order in which a fetch checks them: first that
-- of the queue.
local function limits_of(queue, lane)
  local parked, states = lane_parked(queue, lane), {}
  if is_limited(queue) then states[1] = limit_state(limit_open('#' .. queue), queue, lane, false) end
  for _, key in ipairs(lane_limits(queue, lane)) do
    states[#states + 1] = limit_state(limit_open(key), queue, lane, key == parked)
  end
  return states
end

-- Returns the state of the first limit that blocks a lane, or nil.
local function first_blocking(queue, lane)
  for _, state in ipairs(limits_of(queue, lane)) do
    if state.is_blocking then return state end
  end
end

return {first_blocking = first_blocking, lane_of = lane_of, limits_of = limits_of, next_lane = next_lane, paused_since = paused_since}
