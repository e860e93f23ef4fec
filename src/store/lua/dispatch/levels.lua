-- Chooses lanes inside levels. A level is the fair queue of the tenants of one priority in a queue
-- (`fairness/level`), and each of its tenants has lanes of its own.
--
-- A source is a queue as this call has read it (`dispatch/source`); `source.levels` holds the levels
-- that this call has opened, by their entry in `ready`.

local lane_module = require('queue/lane')
local fair_queue = require('fairness/fair_queue')
local fair_queue_write = require('fairness/fair_queue_write')
local level_module = require('fairness/level')
local window_module = require('fairness/window')
local pick_module = require('fairness/pick')
local source_module = require('dispatch/source')
local stop = require('dispatch/stop')
local runtime = require('lib/runtime')

local int = runtime.int
local LEVEL, lane_score = lane_module.LEVEL, lane_module.score
local fair_arrive, fair_withdraw, tenant_of = fair_queue.arrive, fair_queue.withdraw, fair_queue.tenant_of
local tenant_reweigh = fair_queue.tenant_reweigh
local fair_write = fair_queue_write.fair_write
local level_lanes, level_open, level_reweigh = level_module.lanes, level_module.open, level_module.reweigh
local sharing_weight = level_module.sharing_weight
local window_head, window_open = window_module.head, window_module.open
local forgo, moments_sweep, pick, pick_open = pick_module.stop_waiting, pick_module.sweep_departed, pick_module.pick, pick_module.open
local LANES_READ, lane_cut, lane_write = source_module.LANES_READ, source_module.lane_cut, source_module.lane_write
local lanes_read, lanes_wanted, source_write = source_module.lanes_read, source_module.lanes_wanted, source_module.write
local lane_drained, lane_passes = stop.lane_drained, stop.lane_passes
local call = redis.call

local NAMELESS = '*' -- the participant for all lanes without a tenant: see `fairness/level`

-- Adds the lanes without a tenant to their level when a fetch finds some. If no tenant waits in the
-- level, they leave it again, and the level ends.
local function nameless_join(fair)
  local participant, weight = tenant_of(fair, NAMELESS), sharing_weight(fair.queue, NAMELESS)
  if participant.state then tenant_reweigh(fair, participant, weight) else fair_arrive(fair, participant, weight) end
  fair_write(fair)
end

local function nameless_leave(fair)
  local participant = fair.n == 1 and tenant_of(fair, NAMELESS)
  if participant and participant.state then fair_withdraw(fair, participant) end
end

-- Opens the level of one priority.
local function level_of(source, name)
  local level = source.levels[name]
  if not level then
    -- `tenant` and `window`: whose turn it is, and the window at whose head it is.
    level = {fair = level_open(source.queue, string.sub(name, 2)), tenant = nil, window = nil, closed = nil}
    if source.nameless[name] then nameless_join(level.fair) end
    level_reweigh(level.fair)
    pick_open(level.fair, source.want)
    source.levels[name] = level
  end
  return level
end

-- Writes a tenant's lane from which this call has taken jobs.
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

-- Opens the lanes without a tenant: those in `ready` behind the level.
local function nameless_lanes(source, fair)
  local start = lane_score(tonumber(string.sub(fair.level, 2)), 0)
  return window_open(source.ready, lanes_wanted(source), source, lanes_read, source_write, '(' .. int(start), '(' .. int(start + LEVEL))
end

-- Opens the lanes of a tenant that may run, the one with the oldest first job in front.
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

-- Returns the lane of a tenant with the oldest first job of those that limits let run. Returns nil
-- if there is none, and true if the call must end before all lanes were examined.
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

-- Returns the lane of the tenant whose turn it is. A tenant with nothing to run loses its turn
-- until it has something.
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

-- Writes the tenants' lanes of a queue that this call has changed.
local function write_lanes(source)
  for _, lane in pairs(source.lanes) do
    if lane.set ~= source.ready and (lane.taken > 0 or not lane.start) then tenant_lane_write(source, lane) end
  end
end

-- Writes the tenants' lanes of all queues, and ends levels without tenants.
local function close()
  for _, source in pairs(source_module.sources) do
    write_lanes(source)
    for _, level in pairs(source.levels) do
      nameless_leave(level.fair)
      moments_sweep(level.fair)
    end
  end
end

return {
  choose = level_choose,
  close = close,
  open = level_of,
  tenant_choose = tenant_choose,
  tenant_lanes = tenant_lanes,
  write_lanes = write_lanes,
}
