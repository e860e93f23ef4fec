-- Which lane of a queue goes next, given its limits, its tenants' turns and the age of its jobs.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local quotas = require('tenants/quotas')
local lanes_module = require('limits/lanes')
local job_module = require('queue/job')
local fair_queue = require('fairness/fair_queue')
local fair_queue_write = require('fairness/fair_queue_write')
local level_module = require('fairness/level')
local quota = require('limits/quota')
local park = require('limits/park')
local window_module = require('fairness/window')
local pick_module = require('fairness/pick')
local source_module = require('dispatch/source')
local stop = require('dispatch/stop')
local runtime = require('lib/runtime')

local int = runtime.int
local LEVEL, lane_score = lane_module.LEVEL, lane_module.score
local tenants_open = quotas.tenants_open
local lane_owner, limits_count = lanes_module.lane_owner, lanes_module.limits_count
local is_limited, job_load = job_module.is_limited, job_module.load
local fair_arrive, fair_withdraw, tenant_of = fair_queue.arrive, fair_queue.withdraw, fair_queue.tenant_of
local tenant_reweigh = fair_queue.tenant_reweigh
local fair_flush, fair_write = fair_queue_write.fair_flush, fair_queue_write.fair_write
local level_lanes, level_open, level_reweigh = level_module.lanes, level_module.open, level_module.reweigh
local queue_sharing, sharing_weight = level_module.queue_sharing, level_module.sharing_weight
local limit_open, limit_room = quota.limit_open, quota.limit_room
local stopped, wake_due = park.stopped, park.wake_due
local window_fill, window_head, window_insert = window_module.fill, window_module.head, window_module.insert
local window_open = window_module.open
local forgo, moments_sweep, pick = pick_module.stop_waiting, pick_module.sweep_departed, pick_module.pick
local pick_open, serve = pick_module.open, pick_module.serve
local LANES_READ, lane_cut, lane_fill = source_module.LANES_READ, source_module.lane_cut, source_module.lane_fill
local lane_write, lanes_read = source_module.lane_write, source_module.lanes_read
local lanes_wanted, source_write = source_module.lanes_wanted, source_module.write
local lane_drained, lane_passes, limits_of = stop.lane_drained, stop.lane_passes, stop.limits_of
local call = redis.call
local find = string.find

local NAMELESS = '*' -- the participant that stands for all lanes without a tenant: see `fairness/level`

-- Lanes of `ready`, and levels, which are no lanes. Lanes of a priority that has a level are left to it; where tenants share the queue no
-- more, the level goes first, and its jobs are moved to those lanes: see `dispatch/reshard`.
local function ready_read(source, names)
  -- Mostly there is nothing but the tenants of one priority.
  if #names == 2 and string.byte(names[1]) == 64 then -- @
    return {{name = names[1], start = tonumber(names[2])}}
  end
  if find(ctx.allowed, 'c', 1, true) then -- what tenants are allowed is read for all at once
    local owners = {}
    for position = 1, #names, 2 do owners[#owners + 1] = lane_owner(names[position]) end
    if #owners > 0 then tenants_open(owners) end
  end
  local lanes = lanes_read(source, names)
  if not ctx.state.levels or not queue_sharing(source.queue) then return lanes end
  local kept, level = {}, nil
  for _, lane in ipairs(lanes) do
    if string.byte(lane.name) == 64 then
      level = lane
      kept[#kept + 1] = lane
    elseif level and math.floor(lane.start / LEVEL) == math.floor(level.start / LEVEL) then
      source.nameless[level.name] = true
    else
      kept[#kept + 1] = lane
    end
  end
  -- The last of as many as are read at once may have lanes behind it.
  if level and names[#names - 1] == level.name and #names == lanes_wanted(source) * 2 then source.nameless[level.name] = true end
  return kept
end

-- With aging, one window for each priority, because an old job of a lower one may come before a young one of a higher.
local function windows_by_priority(source)
  local windows, low = {}, '-inf'
  while true do
    local first = call('ZRANGEBYSCORE', source.ready, low, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    if not first[1] then return windows end
    local level = math.floor(tonumber(first[2]) / LEVEL)
    low = int((level + 1) * LEVEL)
    local window = window_open(source.ready, lanes_wanted(source), source, ready_read, source_write, int(level * LEVEL), '(' .. low)
    window.priority = 100 - level
    windows[#windows + 1] = window
  end
end

local function source_open(source)
  source.levels, source.nameless = {}, {} -- first: at the end all sources are looked at, also one whose beginning failed
  if is_limited(source.queue) then source.limit = limit_open('#' .. source.queue) end
  if source.limit and limit_room(source.limit) <= 0 then
    source.windows = {} -- nothing of it may start in this call, so that nothing is read
  elseif source.aging then
    source.windows = windows_by_priority(source)
  else
    source.windows = {window_open(source.ready, lanes_wanted(source), source, ready_read, source_write)}
  end
end

-- Whether nothing of a queue is ready any more. Redis is asked only where nothing is known that is: tenants who wait, whose level
-- stands in `ready`, or a lane that was read. Who asks for jobs of one tenant takes from lanes that others have read.
local function source_is_empty(source)
  if source.taken == 0 and not source.parked then return false end
  for _, level in pairs(source.levels) do
    if level.fair.n > 0 then return false end
  end
  local window = source.windows[1]
  if window and window.at <= window.last and not source.entries then return false end
  return call('EXISTS', source.ready) == 0
end

-- Lanes without a tenant join the level of their priority when a fetch finds some. Without tenants there, they need none: it ends.
local function nameless_join(fair)
  local participant, weight = tenant_of(fair, NAMELESS), sharing_weight(fair.queue, NAMELESS)
  if participant.state then tenant_reweigh(fair, participant, weight) else fair_arrive(fair, participant, weight) end
  fair_write(fair)
end

local function nameless_leave(fair)
  local participant = fair.n == 1 and tenant_of(fair, NAMELESS)
  if participant and participant.state then fair_withdraw(fair, participant) end
end

-- The tenants' lanes of one priority.
local function level_of(source, name)
  local level = source.levels[name]
  if not level then
    -- Besides: the tenant whose turn it is, and the window in which it stands.
    level = {fair = level_open(source.queue, string.sub(name, 2)), tenant = nil, window = nil, closed = nil}
    if source.nameless[name] then nameless_join(level.fair) end
    level_reweigh(level.fair)
    pick_open(level.fair, source.want)
    source.levels[name] = level
  end
  return level
end

-- Writes a tenant's lane of which this call has taken.
local function tenant_lane_write(source, lane)
  if lane.start then
    lane_cut(lane)
    call('ZADD', lane.set, lane.head, lane.name)
  else
    lane_write(lane, {}, {})
    call('ZREM', lane.set, lane.name)
    source.lanes[lane.name] = nil
    lane_drained(source, lane)
  end
end

local function tenant_lanes_read(owner, names)
  local lanes = lanes_read(owner.source, names)
  for place = 1, #lanes do lanes[place].set = owner.set end
  return lanes
end

local function tenant_lanes_write(owner)
  for _, lane in pairs(owner.source.lanes) do
    if lane.set == owner.set and (lane.taken > 0 or not lane.start) then tenant_lane_write(owner.source, lane) end
  end
end

-- Lanes without a tenant: those of `ready` behind the level.
local function nameless_lanes(source, fair)
  local start = lane_score(tonumber(string.sub(fair.level, 2)), 0)
  return window_open(source.ready, lanes_wanted(source), source, lanes_read, source_write, '(' .. int(start), '(' .. int(start + LEVEL))
end

-- The lanes of a tenant that may run, the one with the oldest first job in front.
local function tenant_lanes(source, fair, tenant)
  if tenant.lanes then return tenant.lanes end
  if tenant.name == NAMELESS then
    tenant.lanes = nameless_lanes(source, fair)
  else
    local owner = {source = source, set = level_lanes(fair, tenant.name)}
    tenant.lanes = window_open(owner.set, LANES_READ, owner, tenant_lanes_read, tenant_lanes_write)
  end
  return tenant.lanes
end

-- The lane of a tenant whose first job is the oldest, of those that may run; or nil, and whether it has more that were not
-- looked at.
local function tenant_choose(source, fair, tenant)
  local lanes = tenant_lanes(source, fair, tenant)
  while true do
    local lane = window_head(lanes)
    if not lane then return nil, false end
    if lane_passes(source, lane) then return lane end
    if source.lanes[lane.name] and lane.start then
      stop.unfinished = true
      return nil, true
    end
    lanes.at = lanes.at + 1
  end
end

-- The lane of the tenant whose turn it is. Tenants that have nothing to give lose their turn until they have.
local function level_choose(source, name)
  local level = level_of(source, name)
  while true do
    local tenant, window = pick(level.fair)
    if not tenant or level.closed then return nil end
    local lane, has_more = tenant_choose(source, level.fair, tenant)
    if lane then
      level.tenant, level.window, source.turn = tenant, window, level
      return lane
    end
    if has_more then return nil end
    forgo(level.fair, tenant, window)
    if stop.unfinished then return nil end
  end
end

-- When the first job behind an entry of `ready` became available.
local function item_since(source, item)
  local lane = item
  if string.byte(item.name) == 64 then
    local fair = level_of(source, item.name).fair
    local tenant = pick(fair)
    lane = tenant and window_head(tenant_lanes(source, fair, tenant))
  end
  if not lane or not lane_fill(lane, source.want) then return ctx.now end
  local id = lane.ids[lane.at]
  if lane.since_of ~= id then
    local job = job_load(id)
    lane.since_of, lane.since = id, tonumber(job and job.enqueued or nil) or ctx.now
  end
  return lane.since
end

-- The window whose turn it is: the only one, or by priority and age.
local function window_choose(source)
  if not source.aging then return source.windows[1] end
  local best, best_priority, best_since
  for _, window in ipairs(source.windows) do
    local item = window_head(window)
    if item then
      local aging, since = source.aging, item_since(source, item)
      local priority = window.priority + math.min(aging.max, aging.step * math.floor((ctx.now - since) / aging.every))
      if not best or priority > best_priority or (priority == best_priority and since < best_since) then
        best, best_priority, best_since = window, priority, since
      end
    end
  end
  return best
end

-- Lanes were woken, or are to be: what was read of the queue is read again. Tenants have their place in levels that were read
-- as well, so where there are some, the next call does it.
local function source_refresh(source)
  source.freed = nil
  if next(source.levels) then
    stop.unfinished = true
    return
  end
  source_write(source)
  if not wake_due() then stop.unfinished = true end
  if source.aging then
    source.windows = windows_by_priority(source)
  else
    window_fill(source.windows[1])
  end
end

-- Whether the queue's own limit lets another job start.
local function queue_may(source)
  if not source.limit then return true end
  local room, why, at, number, current = limit_room(source.limit)
  if room <= 0 then stopped.queue_stopped(source, why, at, number, current) end
  return room > 0
end

local function lane_choose(source)
  if source.closed or not queue_may(source) then return nil end
  while true do
    local window = window_choose(source)
    local item = window and window_head(window)
    if not item then return nil end
    source.window, source.turn = window, nil
    if item.skipped then -- read again: there is nothing behind
      stop.unfinished = true
    elseif string.byte(item.name) == 64 then
      local lane = level_choose(source, item.name)
      if lane then return lane end
      fair_flush() -- or it would be read again
    elseif lane_passes(source, item) then
      return item
    end
    window.at = window.at + 1 -- parked, put off, or a level without anybody
    if source.freed then source_refresh(source) end
    if stop.unfinished then return nil end
  end
end

local function lane_popped(source, lane, id)
  if id then limits_count(limits_of(source.queue, lane), -1) end
  local turn = source.turn
  if source.apart then return end -- asked for out of turn: nothing else is read in this call
  if not turn then
    source.window.at = source.window.at + 1
    if lane.start then window_insert(source.window, lane) end
    return
  end
  local lanes = turn.tenant.lanes
  lanes.at = lanes.at + 1
  if lane.start then window_insert(lanes, lane) end
  local drained = not window_head(lanes)
  if id then
    serve(turn.fair, turn.tenant, turn.window, drained)
  elseif drained then
    forgo(turn.fair, turn.tenant, turn.window)
  end
end

-- Writes what was taken from a queue, changes its lanes, and reads it again.
local function change_lanes(source, change)
  for _, lane in pairs(source.lanes) do
    if lane.set ~= source.ready and (lane.taken > 0 or not lane.start) then tenant_lane_write(source, lane) end
  end
  source_write(source)
  change()
  fair_flush()
  for _, level in pairs(source.levels) do
    for _, tenant in pairs(level.fair.tenants) do tenant.lanes = nil end
  end
  source.lanes, source.turn = {}, nil
  source_open(source)
end

-- Passes over a lane that was chosen and is not to be taken from, for the rest of this call. If it comes again, because the set was
-- read a second time, the level, or the queue, gives nothing more.
local function pass_over(source, lane)
  local turn = source.turn
  local window = turn and turn.window or source.window
  if lane.passed_over or not window then
    (turn or source).closed = true
  else
    lane.passed_over, window.at = true, window.at + 1
  end
end

-- Writes the tenants' lanes that this call has read.
local function levels_close()
  for _, source in pairs(source_module.sources) do
    for _, lane in pairs(source.lanes) do
      if lane.set ~= source.ready and (lane.taken > 0 or not lane.start) then tenant_lane_write(source, lane) end
    end
    for _, level in pairs(source.levels) do
      nameless_leave(level.fair)
      moments_sweep(level.fair)
    end
  end
end

return {
  change_lanes = change_lanes,
  is_empty = source_is_empty,
  lane_choose = lane_choose,
  lane_popped = lane_popped,
  levels_close = levels_close,
  pass_over = pass_over,
  queue_may = queue_may,
  source_open = source_open,
  tenant_choose = tenant_choose,
}
