-- Counts runnable jobs: those that a free worker could start, or that are promoted once a worker is
-- free. Jobs of paused queues and rules, and jobs that a limit blocks, do not count.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local record = require('lib/record')

local is_paused, queue_depth = lane_module.is_paused, lane_module.queue_depth
local call = redis.call
local match = string.match

-- Bounds: queues and rules examined, lanes of each queue that wait for a limit, and jobs read of a
-- lane that does not name its tenant.
local MOST_QUEUES, MOST_RULES, MOST_LANES, JOBS_PER_LANE = 256, 1000, 64, 8

local function ready_jobs()
  local jobs = 0
  for _, queue in ipairs(call('ZRANGE', lane_module.LIVE, 0, MOST_QUEUES - 1)) do
    -- The limit of a queue blocks it as a whole.
    local is_stopped = ctx.state.limits and call('HEXISTS', ctx.prefix .. 'limit:#' .. queue, 'hit') == 1
    if not is_stopped and not is_paused(queue) then jobs = jobs + math.max(queue_depth(queue), 0) end
  end
  return jobs
end

local function staged_jobs()
  local jobs = 0
  for index, rule in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    if index > MOST_RULES then break end
    local plan = call('HMGET', ctx.prefix .. 'plan:' .. rule, 'paused', 'staged')
    if plan[1] ~= '1' then jobs = jobs + (tonumber(plan[2] or nil) or 0) end
  end
  return jobs
end

-- Returns the runnable jobs of all tenants.
local function total_runnable()
  return ready_jobs() + staged_jobs()
end

-- Returns the tenants of the first jobs of a lane that does not name its tenant.
local function tenants_in_lane(key)
  local names = {}
  for _, id in ipairs(call('ZRANGE', key, '0', JOBS_PER_LANE - 1)) do
    local text = call('GET', ctx.prefix .. 'job:' .. id)
    if text then names[#names + 1] = record.tenant(text) end
  end
  return names
end

-- Returns by tenant its jobs in parked lanes; from samples, if there are many queues or lanes.
local function blocked_of()
  local blocked = {}
  if (tonumber(ctx.state.parked) or 0) <= 0 then return blocked end
  for _, queue in ipairs(call('HRANDFIELD', ctx.prefix .. 'queues', MOST_QUEUES)) do
    for _, lane in ipairs(call('HRANDFIELD', ctx.prefix .. 'parked:' .. queue, MOST_LANES)) do
      local key = ctx.prefix .. 'lane:' .. queue .. ':' .. lane
      local owner, jobs = match(lane, ';[bt]=(.*)$'), call('ZCARD', key)
      local owners = owner and {owner} or tenants_in_lane(key)
      for _, name in ipairs(owners) do blocked[name] = (blocked[name] or 0) + math.ceil(jobs / #owners) end
    end
  end
  return blocked
end

return {blocked_of = blocked_of, total_runnable = total_runnable}
