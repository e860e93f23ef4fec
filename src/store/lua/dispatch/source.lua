-- Taking jobs out of a queue. Nothing is taken out of a lane before the end: until then it is known what was.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local runtime = require('lib/runtime')

local on_begin, count, int = runtime.on_begin, runtime.count, runtime.int
local is_paused, queue_slept = lane_module.is_paused, lane_module.queue_slept
local call = redis.call
local find = string.find

local M = {}

local LANES_READ = 16
M.sources, M.wanted = nil, nil -- by queue: what is read of it, and how many jobs are likely to be taken in this call
M.wanted_in_all = nil

on_begin(function()
  M.sources, M.wanted, M.wanted_in_all = {}, {}, 0
end)

-- Chooses which lane of a source goes next; set once per call by the strategy, `dispatch/simple` or `dispatch/policy`:
--
-- open(source)              reads what it needs to choose
-- choose(source)            the lane whose turn it is; nil if none may go
-- settled(source, lane)     whether the first job of that lane belongs there; if not, it moves the job, and another lane is chosen.
--                           Nil if jobs always do
-- popped(source, lane, id)  a job was taken from the lane
-- drained(source, lane)     a lane is empty
-- is_empty(source)          whether nothing is left that could run
local chooser

M.use = function(lane_chooser)
  chooser = lane_chooser
end

-- Lanes of a sorted set, by name and the score of their first job.
local function lanes_read(source, names)
  local lanes = {}
  for position = 1, #names, 2 do
    local name = names[position]
    local lane = source.lanes[name]
    if not lane then
      -- All fields that it may get: see `job_load`.
      lane = {name = name, start = nil, key = ctx.prefix .. 'lane:' .. source.queue .. ':' .. name, set = source.ready, ids = nil, at = 1,
        read = 0, taken = 0, all = false, portion = nil, head = nil}
      source.lanes[name] = lane
    end
    if lane.taken == 0 then lane.start = tonumber(names[position + 1]) end
    if lane.start then lanes[#lanes + 1] = lane end
  end
  return lanes
end

-- Whether a lane has another job; ids are read in portions, one more than wanted: that one is the lane's next head. Of lanes that
-- share a queue with many others mostly one job is taken, so their portions begin small and grow.
local function lane_fill(lane, want)
  if lane.ids and (lane.at <= #lane.ids or lane.all) then return lane.at <= #lane.ids end
  local portion = lane.portion and math.min(lane.portion * 4, want) or (find(lane.name, ';', 1, true) and 1 or want)
  lane.ids = call('ZRANGE', lane.key, int(lane.read), int(lane.read + portion), 'WITHSCORES')
  lane.at, lane.read, lane.portion = 1, lane.read + #lane.ids / 2, portion
  lane.all = #lane.ids <= portion * 2
  return #lane.ids > 0
end

-- The lane's first job, which is taken; nil if there is none. `start` is that of the next, or nil, and `head` the same as text.
local function lane_pop(lane, want)
  local ids, at = lane.ids, lane.at
  if ids and ids[at + 2] then -- both were read already
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

-- Writes that jobs were taken from the front of a lane that has more.
local function lane_cut(lane)
  call('ZREMRANGEBYRANK', lane.key, '0', int(lane.taken - 1))
  lane.read, lane.taken = lane.read - lane.taken, 0
end

-- Writes what was taken out of a lane, and where it stands among the others: heads and names, or names of empty ones.
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

-- Writes the lanes of a queue that stand in `ready`; tenants' lanes are written with their tenants.
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

-- How many lanes of a queue to read at once.
local function lanes_wanted(source)
  local most = 128
  return math.min(math.max(source.want + 1, LANES_READ), most)
end

local function source_open(queue, aging)
  local source = M.sources[queue]
  if not source then
    -- All fields that it may get: see `job_load`.
    source = {queue = queue, ready = ctx.prefix .. 'ready:' .. queue, lanes = {}, taken = 0, want = M.wanted[queue] or 1, aging = aging,
      levels = nil, nameless = nil, limit = nil, windows = nil, window = nil, turn = nil, parked = nil, closed = nil}
    M.sources[queue] = source
    chooser.open(source)
  end
  return source
end

-- The first job of a lane whose turn it is; nil if there is none after all.
local function source_take(source, lane)
  local id = lane_pop(lane, source.want)
  chooser.popped(source, lane, id)
  if id then source.taken = source.taken + 1 end
  return id
end

-- The next job of a queue, and the lane that it was in; nil if none may go. How jobs age is said by the first who asks.
local function source_next(queue, aging)
  if is_paused(queue) then return nil end
  local source = source_open(queue, aging)
  while true do
    local lane = chooser.choose(source)
    if not lane then return nil end
    if not chooser.settled or chooser.settled(source, lane) then
      local id = source_take(source, lane)
      if id then return id, lane end
    end
  end
end

-- Lanes as they are after all was taken.
local function sources_close()
  for queue, source in pairs(M.sources) do
    source_write(source)
    if source.taken > 0 then count(queue, 'taken', source.taken) end
    if chooser.is_empty(source) then queue_slept(queue) end
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
