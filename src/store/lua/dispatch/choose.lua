-- Chooses the lane of a queue to serve next, by limits, tenants' turns and the age of jobs.
--
-- A source is a queue as this call has read it (`dispatch/source`). The tenants of one priority are
-- represented in `ready` by one entry, `@pP`; `dispatch/levels` chooses among them.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local quotas = require('tenants/quotas')
local lanes_module = require('limits/lanes')
local job_module = require('queue/job')
local fair_queue_write = require('fairness/fair_queue_write')
local level_module = require('fairness/level')
local quota = require('limits/quota')
local park = require('limits/park')
local window_module = require('fairness/window')
local pick_module = require('fairness/pick')
local source_module = require('dispatch/source')
local stop = require('dispatch/stop')
local levels = require('dispatch/levels')
local runtime = require('lib/runtime')

local int = runtime.int
local LEVEL = lane_module.LEVEL
local tenants_open = quotas.tenants_open
local lane_owner, limits_count = lanes_module.lane_owner, lanes_module.limits_count
local is_limited, job_load = job_module.is_limited, job_module.load
local fair_flush = fair_queue_write.fair_flush
local queue_sharing = level_module.queue_sharing
local limit_open, limit_room = quota.limit_open, quota.limit_room
local wake_due = park.wake_due
local window_fill, window_head, window_insert = window_module.fill, window_module.head, window_module.insert
local window_open = window_module.open
local forgo, pick, serve = pick_module.stop_waiting, pick_module.pick, pick_module.serve
local lane_fill, lanes_read = source_module.lane_fill, source_module.lanes_read
local lanes_wanted, source_write = source_module.lanes_wanted, source_module.write
local lane_passes, limits_of = stop.lane_passes, stop.limits_of
local level_choose, level_of, tenant_lanes, write_lanes = levels.choose, levels.open, levels.tenant_lanes, levels.write_lanes
local call = redis.call
local find = string.find

-- Decodes entries of `ready`: lanes and levels. Lanes of a priority that has a level are left to
-- the level. If tenants no longer take turns in the queue, the level comes first and its jobs are
-- moved to those lanes (`dispatch/reshard`).
local function ready_read(source, names)
  -- The common case: only tenants of one priority.
  if #names == 2 and string.byte(names[1]) == 64 then -- @, a level
    return {{name = names[1], start = tonumber(names[2])}}
  end
  if find(ctx.tenant_limits, 'c', 1, true) then -- reads the quotas of all tenants at once
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
  -- If the level is the last entry and more may follow, lanes of its priority may be behind it.
  if level and names[#names - 1] == level.name and #names == lanes_wanted(source) * 2 then source.nameless[level.name] = true end
  return kept
end

-- Opens a window for each priority, which aging requires: an old job of a lower priority may go
-- before a young one of a higher priority.
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
  -- Set first: `levels.close` reads these fields of all sources, even if an error occurs below.
  source.levels, source.nameless = {}, {}
  if is_limited(source.queue) then source.limit = limit_open('#' .. source.queue) end
  if source.limit and limit_room(source.limit) <= 0 then
    source.windows = {} -- nothing of the queue may start in this call, so nothing is read
  elseif source.aging then
    source.windows = windows_by_priority(source)
  else
    source.windows = {window_open(source.ready, lanes_wanted(source), source, ready_read, source_write)}
  end
end

-- Returns true if a queue has nothing ready any more. Asks Redis only if this call knows of nothing
-- that is ready: no waiting tenants in a level, and no lane that was read. A fetch for one tenant
-- uses lanes that were read for other requests, so for that the window proves nothing.
local function source_is_empty(source)
  if source.taken == 0 and not source.parked then return false end
  for _, level in pairs(source.levels) do
    if level.fair.n > 0 then return false end
  end
  local window = source.windows[1]
  if window and window.at <= window.last and not source.entries then return false end
  return call('EXISTS', source.ready) == 0
end

-- Returns the time at which the first job behind an entry of `ready` became available.
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

-- Returns the window to take from: the only one, or the best by priority and age.
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

-- Wakes lanes whose limits have room again and reads the queue again. The tenants of a level that
-- was read already have their positions, so in that case the next call does it.
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

-- Returns true if the queue's own limit lets another job start.
local function queue_has_room(source)
  if not source.limit then return true end
  local room, why, at, number, current = limit_room(source.limit)
  if room <= 0 then park.stop_queue(source, why, at, number, current) end
  return room > 0
end

local function lane_choose(source)
  if source.closed or not queue_has_room(source) then return nil end
  while true do
    local window = window_choose(source)
    local item = window and window_head(window)
    if not item then return nil end
    source.window, source.turn = window, nil
    -- The lane was read a second time: its jobs were postponed up to the bound.
    if item.postponed then
      stop.unfinished = true
    elseif string.byte(item.name) == 64 then
      local lane = level_choose(source, item.name)
      if lane then return lane end
      fair_flush() -- otherwise the level would be read again
    elseif lane_passes(source, item) then
      return item
    end
    window.at = window.at + 1 -- parked, postponed, or a level without tenants
    if source.freed then source_refresh(source) end
    if stop.unfinished then return nil end
  end
end

local function lane_popped(source, lane, id)
  if id then limits_count(limits_of(source.queue, lane), -1) end
  local turn = source.turn
  if source.out_of_turn then return end -- served out of turn: nothing else is read in this call
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

-- Writes what was taken from a queue, calls `change`, which changes its lanes, and reads it again.
local function change_lanes(source, change)
  write_lanes(source)
  source_write(source)
  change()
  fair_flush()
  for _, level in pairs(source.levels) do
    for _, tenant in pairs(level.fair.tenants) do tenant.lanes = nil end
  end
  source.lanes, source.turn = {}, nil
  source_open(source)
end

-- Skips a lane that was chosen but must not be taken from in this call. If it is chosen again
-- because the set was read a second time, its level or queue gives no more jobs in this call.
local function pass_over(source, lane)
  local turn = source.turn
  local window = turn and turn.window or source.window
  if lane.passed_over or not window then
    (turn or source).closed = true
  else
    lane.passed_over, window.at = true, window.at + 1
  end
end

return {
  change_lanes = change_lanes,
  is_empty = source_is_empty,
  lane_choose = lane_choose,
  lane_popped = lane_popped,
  pass_over = pass_over,
  queue_has_room = queue_has_room,
  source_open = source_open,
}
