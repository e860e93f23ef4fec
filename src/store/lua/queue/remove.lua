-- Removes single jobs from their lanes.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local lanes = require('limits/lanes')
local job_module = require('queue/job')
local fair_queue = require('fairness/fair_queue')
local level = require('fairness/level')

local lane_base, lane_flush, lane_limits = lane_module.base, lane_module.flush, lane_module.limits
local clear_queue_live = lane_module.clear_queue_live
local count_blocked, lane_left, lane_level = lanes.count_blocked, lanes.lane_left, lanes.lane_level
local lane_parked, lane_tenant, lane_unpark = lanes.lane_parked, lanes.lane_tenant, lanes.lane_unpark
local limits_count = lanes.limits_count
local fair_withdraw, tenant_of = fair_queue.withdraw, fair_queue.tenant_of
local level_lanes, level_open = level.lanes, level.open
local call = redis.call
local find = string.find

-- Updates the entry of a lane from which `jobs` jobs were removed: it has another first job, or is
-- empty.
local function lane_shrunk(queue, lane, key, jobs)
  local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]
  if not find(lane, ';', 1, true) then
    local ready = ctx.prefix .. 'ready:' .. queue
    if head then return call('ZADD', ready, head, lane) end
    call('ZREM', ready, lane)
    if call('EXISTS', ready) == 0 then clear_queue_live(queue) end
    return
  end
  limits_count(lane_limits(queue, lane), -jobs)
  local limit, tenant = lane_parked(queue, lane), lane_tenant(lane)
  if limit then
    if not head then return lane_unpark(queue, lane, limit, jobs) end
    if not tenant then call('ZADD', ctx.prefix .. 'wait:' .. limit .. ':' .. queue, head, lane) end
    return count_blocked(queue, lane, -jobs)
  end
  local fair = tenant and level_open(queue, lane_level(lane))
  local set = fair and level_lanes(fair, tenant) or ctx.prefix .. 'ready:' .. queue
  if head then return call('ZADD', set, head, lane) end
  call('ZREM', set, lane)
  lane_left(queue, lane)
  for _, limit_key in ipairs(lane_limits(queue, lane)) do call('ZADD', job_module.WAKES, ctx.now_text, limit_key) end
  if call('EXISTS', set) == 1 then return end
  if fair then
    fair_withdraw(fair, tenant_of(fair, tenant))
  else
    clear_queue_live(queue)
  end
end

-- Removes a waiting job from its lane. The lane depends on the settings that held when the job was
-- pushed, so all names that the lane can have are tried.
local function lane_remove(job)
  lane_flush()
  local tenant, base = '=' .. (job.tenant or '_default'), lane_base(job.lane)
  for _, suffix in ipairs({'', ';t' .. tenant, ';s=1;t' .. tenant, ';b' .. tenant}) do
    local key = ctx.prefix .. 'lane:' .. job.queue .. ':' .. base .. suffix
    if call('ZREM', key, job.id) == 1 then return lane_shrunk(job.queue, base .. suffix, key, 1) end
  end
end

return {lane_remove = lane_remove, lane_shrunk = lane_shrunk}
