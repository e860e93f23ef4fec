-- Serves requests for the jobs of one tenant only: queues in their order, jobs by priority.
--
-- All jobs of the tenant are found in queues in which tenants take turns or have lanes of their
-- own. In lanes that tenants share, only jobs near the front are found.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local lanes = require('limits/lanes')
local fair_queue = require('fairness/fair_queue')
local level_module = require('fairness/level')
local remove = require('queue/remove')
local quota = require('limits/quota')
local park = require('limits/park')
local source_module = require('dispatch/source')
local stop = require('dispatch/stop')
local levels = require('dispatch/levels')
local choose = require('dispatch/choose')
local reshard = require('dispatch/reshard')
local turn_module = require('dispatch/turn')
local record = require('lib/record')
local runtime = require('lib/runtime')

local int = runtime.int
local is_paused, lane_flush, lane_limits = lane_module.is_paused, lane_module.flush, lane_module.limits
local lane_score = lane_module.score
local lane_owner, lane_parked = lanes.lane_owner, lanes.lane_parked
local fair_withdraw, tenant_of = fair_queue.withdraw, fair_queue.tenant_of
local level_open = level_module.open
local lane_shrunk = remove.lane_shrunk
local limit_open, limit_room = quota.limit_open, quota.limit_room
local lanes_read, source_open = source_module.lanes_read, source_module.open
local source_take = source_module.take
local lane_passes = stop.lane_passes
local queue_has_room, tenant_choose = choose.queue_has_room, levels.tenant_choose
local count_dispatch, turn_has_room = turn_module.count_dispatch, turn_module.has_room
local call = redis.call
local find, match = string.find, string.match

local MAX_WAITING_LANES, MAX_ENTRIES, MAX_SHARED_JOBS = 16, 201, 256

-- Wakes lanes of the tenant that wait for limits with room. Such lanes exist because a wake-up is
-- bounded in number.
local function wake_own_lanes(source, tenant)
  local woken = false
  for _, name in ipairs(call('SRANDMEMBER', ctx.prefix .. 'asleep:' .. source.queue .. ':' .. tenant, MAX_WAITING_LANES)) do
    local is_stopped = false
    for _, key in ipairs(lane_limits(source.queue, name)) do is_stopped = is_stopped or limit_room(limit_open(key)) <= 0 end
    local key = not is_stopped and lane_parked(source.queue, name)
    if key then
      park.wake_lane(source.queue, name, key)
      limit_open(key).waiting = limit_open(key).waiting - 1
      woken = true
    end
  end
  if woken then
    lane_flush()
    source.own_lanes = nil
  end
  return woken
end

-- Returns the lane that may give a job in the highest level in which the tenant waits, with its
-- start and turn; nil if there is none.
local function level_first(source, name)
  for _, entry in ipairs(source.entries) do
    local level = match(entry, '^@(.*)$')
    local fair = level and level_open(source.queue, level)
    local tenant = fair and tenant_of(fair, name)
    if tenant and tenant.state == 'w' then
      tenant.lanes = nil -- some may have been woken since
      local lane, has_more = tenant_choose(source, fair, tenant)
      if lane then return {start = lane_score(tonumber(string.sub(level, 2)), 0), lane = lane, turn = {fair = fair, tenant = tenant}} end
      if has_more then return nil end
      fair_withdraw(fair, tenant)
    end
  end
end

-- Reads the tenant's own lanes outside levels: one of each priority, whose names are known, and
-- those under limits.
local function own_open(source, name)
  local names, found = {}, {}
  for priority = 100, -100, -1 do names[#names + 1] = 'p' .. int(priority) .. ';b=' .. name end
  for _, lane in ipairs(call('SRANDMEMBER', ctx.prefix .. 'awake:' .. source.queue .. ':' .. name, MAX_WAITING_LANES)) do names[#names + 1] = lane end
  for place, score in ipairs(call('ZMSCORE', source.ready, unpack(names))) do
    if score then found[#found + 1], found[#found + 2] = names[place], score end
  end
  source.own_lanes = lanes_read(source, found)
end

local function own_first(source, name)
  if not source.own_lanes then own_open(source, name) end
  while true do
    local best, at
    for place, lane in ipairs(source.own_lanes) do
      if lane.start and (not best or lane.start < best.start) then best, at = lane, place end
    end
    if not best or lane_passes(source, best) then return best and {start = best.start, lane = best} end
    if stop.unfinished then return nil end
    table.remove(source.own_lanes, at)
  end
end

-- Reads the tenant's jobs near the front of the lanes that tenants share.
local function shared_open(source, name)
  source.shared_jobs = {}
  local left = MAX_SHARED_JOBS
  for _, entry in ipairs(source.entries) do
    if left > 0 and not find(entry, '^@') and not lane_owner(entry) then
      local ids, keys = call('ZRANGE', ctx.prefix .. 'lane:' .. source.queue .. ':' .. entry, '0', int(left - 1), 'WITHSCORES'), {}
      for position = 1, #ids, 2 do keys[#keys + 1] = ctx.prefix .. 'job:' .. ids[position] end
      local gone = {}
      for place, text in ipairs(#keys > 0 and call('MGET', unpack(keys)) or {}) do
        local owner, id, start = text and record.tenant(text), ids[place * 2 - 1], tonumber(ids[place * 2])
        if text and reshard.move(source.queue, entry, id, start, text) then
          gone[#gone + 1] = id
        elseif owner == name then
          source.shared_jobs[#source.shared_jobs + 1] = {start = start, id = id, lane = {name = entry}}
        end
      end
      left = left - #keys
      if #gone > 0 then
        local key = ctx.prefix .. 'lane:' .. source.queue .. ':' .. entry
        call('ZREM', key, unpack(gone))
        lane_flush()
        lane_shrunk(source.queue, entry, key, #gone)
        stop.unfinished = true -- the next call finds them in their lanes
      end
    end
  end
end

local function shared_first(source, name)
  if not source.shared_jobs then shared_open(source, name) end
  while source.shared_jobs[1] do
    local first, lane = source.shared_jobs[1], source.shared_jobs[1].lane
    if lane.passes == nil then
      lane.passes = true
      for _, key in ipairs(lane_limits(source.queue, lane.name)) do
        lane.passes = lane.passes and limit_room(limit_open(key)) > 0
      end
    end
    if lane.passes then return first end
    table.remove(source.shared_jobs, 1)
  end
end

local function shared_take(source, first)
  table.remove(source.shared_jobs, 1)
  local key = ctx.prefix .. 'lane:' .. source.queue .. ':' .. first.lane.name
  if call('ZREM', key, first.id) == 0 then return nil end
  lane_shrunk(source.queue, first.lane.name, key, 1)
  source.taken = source.taken + 1
  first.lane.passes = nil
  return first.id
end

local function first_of(source, name)
  local best
  for _, first in ipairs({level_first(source, name) or false, own_first(source, name) or false, shared_first(source, name) or false}) do
    if first and (not best or first.start < best.start) then best = first end
  end
  return best
end

local function filter_next(queue, name)
  if is_paused(queue) then return nil end
  local source = source_open(queue)
  source.entries = source.entries or call('ZRANGE', source.ready, '0', int(MAX_ENTRIES - 1))
  if not queue_has_room(source) then return nil end
  local first = first_of(source, name)
  if not first and not stop.unfinished and wake_own_lanes(source, name) then
    source.entries = call('ZRANGE', source.ready, '0', int(MAX_ENTRIES - 1))
    first = first_of(source, name)
  end
  if not first or stop.unfinished then return nil end
  if first.id then return shared_take(source, first), first.lane end
  source.turn, source.out_of_turn = first.turn, not first.turn
  if not reshard.ensure_lane(source, first.lane) then
    stop.unfinished = true
    return nil
  end
  return source_take(source, first.lane), first.lane
end

local function tenant_next(turn, name)
  if not turn_has_room(turn) then return nil end
  for _, queue in ipairs(turn.queues) do
    local id, lane = filter_next(queue, name)
    if id then
      count_dispatch(turn, queue)
      return id, lane
    end
  end
end

return {tenant_next = tenant_next}
