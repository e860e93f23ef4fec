-- Takes jobs out of queues. Jobs that are taken stay in their lanes until the end of the call,
-- where all removals from a lane are one command.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local runtime = require('lib/runtime')

local on_begin, count, int = runtime.on_begin, runtime.count, runtime.int
local is_paused, clear_queue_live = lane_module.is_paused, lane_module.clear_queue_live
local call = redis.call
local find = string.find

local M = {}

local LANES_READ = 16
-- By queue: its source, and the number of jobs that this call is likely to take from it.
M.sources, M.wanted = nil, nil
M.wanted_total = nil

on_begin(function()
  M.sources, M.wanted, M.wanted_total = {}, {}, 0
end)

-- Chooses the lane of a source to serve next. The strategy of the call, `dispatch/simple` or
-- `dispatch/policy`, sets it:
--
-- open(source)              reads what is needed to choose
-- choose(source)            returns the lane to serve next; nil if no lane may be served
-- ensure_lane(source, lane) returns true if the first job of the lane belongs there; otherwise
--                           moves it, and another lane is chosen. Nil if jobs always belong there
-- popped(source, lane, id)  handles that a job was taken from the lane
-- drained(source, lane)     handles that a lane is empty
-- is_empty(source)          returns true if nothing is left that could run
local chooser

M.use = function(lane_chooser)
  chooser = lane_chooser
end

-- Decodes lanes of a sorted set from their names and the scores of their first jobs.
local function lanes_read(source, names)
  local lanes = {}
  for position = 1, #names, 2 do
    local name = names[position]
    local lane = source.lanes[name]
    if not lane then
      -- One constructor with all fields (`lib/record`).
      lane = {name = name, start = nil, key = ctx.prefix .. 'lane:' .. source.queue .. ':' .. name, set = source.ready, ids = nil, at = 1,
        read = 0, taken = 0, all = false, portion = nil, head = nil}
      source.lanes[name] = lane
    end
    if lane.taken == 0 then lane.start = tonumber(names[position + 1]) end
    if lane.start then lanes[#lanes + 1] = lane end
  end
  return lanes
end

-- Returns true if a lane has another job. Reads ids in portions of one more than wanted, because
-- that one is the lane's next first job. If a queue has many lanes, usually one job is taken from
-- each, so portions start small and grow.
local function lane_fill(lane, want)
  if lane.ids and (lane.at <= #lane.ids or lane.all) then return lane.at <= #lane.ids end
  local portion = lane.portion and math.min(lane.portion * 4, want) or (find(lane.name, ';', 1, true) and 1 or want)
  lane.ids = call('ZRANGE', lane.key, int(lane.read), int(lane.read + portion), 'WITHSCORES')
  lane.at, lane.read, lane.portion = 1, lane.read + #lane.ids / 2, portion
  lane.all = #lane.ids <= portion * 2
  return #lane.ids > 0
end

-- Takes the first job of a lane and returns its id, or nil if the lane is empty. Sets `start` to
-- the score of the next job, or nil, and `head` to the same as text.
local function lane_pop(lane, want)
  local ids, at = lane.ids, lane.at
  if ids and ids[at + 2] then -- both jobs have been read
    local head = ids[at + 3]
    lane.at, lane.taken, lane.start, lane.head = at + 2, lane.taken + 1, tonumber(head), head
    return ids[at]
  end
  if not lane_fill(lane, want) then
    lane.start = nil
    return nil
  end
  local id = lane.ids[lane.at]
  lane.at, lane.taken = lane.at + 2, lane.taken + 1
  lane.head = lane_fill(lane, want) and lane.ids[lane.at + 1] or nil
  lane.start = tonumber(lane.head)
  return id
end

-- Removes the jobs that were taken from the front of a lane that has more.
local function lane_cut(lane)
  call('ZREMRANGEBYRANK', lane.key, '0', int(lane.taken - 1))
  lane.read, lane.taken = lane.read - lane.taken, 0
end

-- Writes what was taken from a lane. Appends score and name to `heads`, or the name to `empty`.
local function lane_write(lane, heads, empty)
  if lane.taken == 0 and lane.start then return end
  if not lane.start then
    if lane.taken > 0 then call('UNLINK', lane.key) end
    lane.read, lane.taken = lane.read - lane.taken, 0
    empty[#empty + 1] = lane.name
  else
    lane_cut(lane)
    heads[#heads + 1] = lane.head
    heads[#heads + 1] = lane.name
  end
end

-- Writes the lanes of a queue that are in `ready`. Lanes of tenants that take turns are written
-- with their tenants.
local function source_write(source)
  local heads, empty = {}, {}
  for name, lane in pairs(source.lanes) do
    if lane.set == source.ready and (lane.taken > 0 or not lane.start) then
      lane_write(lane, heads, empty)
      if not lane.start then
        source.lanes[name] = nil
        chooser.drained(source, lane)
      end
    end
  end
  if #heads > 0 then call('ZADD', source.ready, unpack(heads)) end
  if #empty > 0 then call('ZREM', source.ready, unpack(empty)) end
end

-- Returns the number of lanes of a queue to read at once.
local function lanes_wanted(source)
  local most = 128
  return math.min(math.max(source.want + 1, LANES_READ), most)
end

local function source_open(queue, aging)
  local source = M.sources[queue]
  if not source then
    -- One constructor with all fields (`lib/record`).
    source = {queue = queue, ready = ctx.prefix .. 'ready:' .. queue, lanes = {}, taken = 0, want = M.wanted[queue] or 1, aging = aging,
      levels = nil, nameless = nil, limit = nil, windows = nil, window = nil, turn = nil, parked = nil, closed = nil}
    M.sources[queue] = source
    chooser.open(source)
  end
  return source
end

-- Takes the first job of a lane; returns nil if the lane turns out to be empty.
local function source_take(source, lane)
  local id = lane_pop(lane, source.want)
  chooser.popped(source, lane, id)
  if id then source.taken = source.taken + 1 end
  return id
end

-- Returns the next job of a queue and its lane; nil if none may start. The first request that asks
-- decides how jobs age.
local function source_next(queue, aging)
  if is_paused(queue) then return nil end
  local source = source_open(queue, aging)
  while true do
    local lane = chooser.choose(source)
    if not lane then return nil end
    if not chooser.ensure_lane or chooser.ensure_lane(source, lane) then
      local id = source_take(source, lane)
      if id then return id, lane end
    end
  end
end

-- Writes what this call took from its queues.
local function sources_close()
  for queue, source in pairs(M.sources) do
    source_write(source)
    if source.taken > 0 then count(queue, 'taken', source.taken) end
    if chooser.is_empty(source) then clear_queue_live(queue) end
  end
end

M.LANES_READ = LANES_READ
M.lane_cut = lane_cut
M.lane_fill = lane_fill
M.lane_pop = lane_pop
M.lane_write = lane_write
M.lanes_read = lanes_read
M.lanes_wanted = lanes_wanted
M.next = source_next
M.open = source_open
M.take = source_take
M.write = source_write
M.sources_close = sources_close

return M
