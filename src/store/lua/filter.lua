-- Part: jobs of one tenant alone, for whoever asks only for those. Queues are taken in their order, where tenants take turns.

local tenant_next

do -- a script has room for 200 locals

local MOST_PROBED = 16

-- Lanes of the tenant that wait for limits which have room now: not all that waited were let go at once.
local function probe(source, tenant)
  local woken = false
  for _, name in ipairs(call('SRANDMEMBER', P .. 'asleep:' .. source.queue .. ':' .. tenant, MOST_PROBED)) do
    local stopped = false
    for _, key in ipairs(lane_limits(source.queue, name)) do stopped = stopped or limit_room(limit_open(key)) <= 0 end
    local key = not stopped and lane_parked(source.queue, name)
    if key then
      lane_wake(source.queue, name, key)
      limits[key].waiting = limits[key].waiting - 1
      woken = true
    end
  end
  return woken
end

-- The highest priority at which the tenant has a lane that may give a job.
local function filter_choose(source, name)
  for _, entry in ipairs(call('ZRANGE', source.ready, 0, 200)) do
    local level = match(entry, '^@(.*)$')
    local fair = level and level_open(source.queue, level)
    local tenant = fair and tenant_of(fair, name)
    if tenant and tenant.state == 'w' then
      tenant.lanes = nil -- some may have been let go since
      local lane, has_more = tenant_choose(source, fair, tenant)
      if lane then return lane, fair, tenant end
      if has_more then return nil end
      fair_withdraw(fair, tenant)
    end
  end
end

local function filter_next(queue, name)
  if is_paused(queue) then return nil end
  local source = source_open(queue)
  if not queue_may(source) then return nil end
  local lane, fair, tenant = filter_choose(source, name)
  if not lane and probe(source, name) then
    lane_flush()
    lane, fair, tenant = filter_choose(source, name)
  end
  if not lane then return nil end
  source.turn = {fair = fair, tenant = tenant}
  return source_take(source, lane), lane
end

tenant_next = function(turn, name)
  if not turn_has_room(turn) then return nil end
  for _, queue in ipairs(turn.queues) do
    local id, lane = filter_next(queue, name)
    if id then return id, lane end
  end
end

end
