-- The minimum share of each queue (`min_dispatch_ratio`).
--
-- Guarantee: of any n consecutive dispatches of a pool, a queue that always has something ready
-- gets at least ⌊ratio·n⌋.
--
-- The credit of a queue is the maximum of ratio·n − (jobs that it got) over all windows of n
-- dispatches that end now, and at least 0. It increases by `ratio` with each dispatch of the pool
-- and decreases by one whole when the queue is served. It never falls below 0, so extra service
-- does not count against the queue later. The guarantee holds exactly while every credit is below
-- one whole.
--
-- A queue is due within j dispatches if its credit would reach one whole with the j-th. The ratios
-- of all queues add up to at most 1. So no credit reaches one whole as long as, for each d, at most
-- d queues are due within d dispatches. Therefore any queue may be served, unless for some d
-- exactly d queues are due within d dispatches and it is none of them: then the queue with the
-- highest credit is served.
--
-- A fetch may name only some of the queues and so miss a queue that is due. Two rules for that:
--
-- A queue that fetches leave out has headroom: the credit that it gained in the longest series of
-- dispatches that left it out, lately. It is served early, when its credit and its headroom reach
-- one whole, so that it keeps its share through another such series. Headroom counts for at most
-- half a whole, so it at most doubles the share. Queues that all fetches name have none.
--
-- A queue that was due nevertheless and left out is overdue: its credit is raised by one whole,
-- until fetches that name it have made up for all that it is owed, up to MAX_OWED. The guarantee of
-- the other queues holds meanwhile.

local pool = require('dispatch/pool')

local orders = pool.orders

local M = {}

local WHOLE = orders.whole
local MAX_OWED = 100 * WHOLE
local MAX_HEADROOM = WHOLE / 2
-- Headroom falls by this part of it with each dispatch of a fetch that names the queue, until it is
-- less than one dispatch.
local HEADROOM_DECAY = 1 / 512

-- Returns the ratio of each queue in parts of a whole. A request without a pool may name more
-- queues than can have the configured ratio; then each gets an equal share.
M.ratio = function(prevention, order)
  if prevention.ratio == 0 then return 0 end
  return math.min(prevention.ratio, math.floor(WHOLE / math.max(#order, 1)))
end

-- Starts with the queues that have something ready. `is_partial` says that the fetch does not name
-- all queues.
M.open = function(progress, ready, is_partial)
  local credit, most, is_overdue = progress.credit, 0, false
  progress.has_headroom = progress.has_headroom or is_partial
  for position = 1, #ready do
    local has = credit[ready[position]]
    if has >= WHOLE then
      is_overdue = true
    elseif has > most then
      most = has
    end
  end
  progress.ready, progress.most, progress.is_overdue = ready, most, is_overdue
end

-- Counts a dispatch for the headroom of each ready queue.
local function count_left_out(turn)
  local progress, is_open, ratio = turn.progress, turn.is_open, turn.ratio
  local left_out, headroom = progress.left_out, progress.headroom
  for _, place in ipairs(progress.ready) do
    if is_open[place] then
      local has = math.floor(headroom[place] * (1 - HEADROOM_DECAY))
      left_out[place], headroom[place] = 0, has < ratio and 0 or has
    else
      left_out[place] = math.min(left_out[place] + ratio, MAX_HEADROOM)
      headroom[place] = math.max(headroom[place], left_out[place])
    end
  end
end

-- Counts a dispatch: each ready queue gains, and the one that was served pays.
M.count = function(turn, served)
  local progress, ratio = turn.progress, turn.ratio
  local ready, credit, most, is_overdue = progress.ready, progress.credit, 0, false
  if progress.has_headroom then count_left_out(turn) end
  for position = 1, #ready do
    local place = ready[position]
    local had = credit[place]
    local has = had + ratio
    if place == served then
      has = has - WHOLE
      if has < 0 or had >= WHOLE and has < WHOLE then has = 0 end
    elseif has >= WHOLE then
      if had < WHOLE then has = has + WHOLE end
      if has > MAX_OWED then has = MAX_OWED end
    end
    credit[place] = has
    if has >= WHOLE then
      is_overdue = true
    elseif has > most then
      most = has
    end
  end
  progress.most, progress.is_overdue = most, is_overdue
end

-- Returns the overdue open queue that is owed most, or nil.
M.most_overdue = function(turn)
  local credit, best = turn.progress.credit, nil
  for _, place in ipairs(turn.open) do
    if credit[place] >= WHOLE and (not best or credit[place] > credit[best]) then best = place end
  end
  return best
end

-- Returns the open queue with headroom and the highest credit, if it or another one must be served
-- early; else nil. Another series may follow each of them, so the headroom of the queues that go
-- first counts for those behind them.
M.early = function(turn)
  local credit, headroom, ratio = turn.progress.credit, turn.progress.headroom, turn.ratio
  local places = {}
  for _, place in ipairs(turn.open) do
    if headroom[place] > 0 then places[#places + 1] = place end
  end
  table.sort(places, function(a, b)
    return credit[a] > credit[b] or credit[a] == credit[b] and a < b
  end)
  local sum = 0
  for position, place in ipairs(places) do
    sum = math.min(sum + headroom[place], MAX_HEADROOM)
    if credit[place] + sum + ratio * position >= WHOLE then return places[1] end
  end
  return nil
end

-- Returns the open queue with the highest credit if a queue that is due must be served now and
-- `choice` is none of them; else nil.
M.required_instead = function(turn, choice)
  local progress, ratio = turn.progress, turn.ratio
  local ready, credit, is_open = progress.ready, progress.credit, turn.is_open
  local size = #ready
  if progress.most + size * ratio < WHOLE then return nil end -- no queue is due before all have been served once
  local due, richest, most = {}, nil, -1
  for position = 1, size do
    local place = ready[position]
    local has = credit[place]
    if has < WHOLE then
      local within = math.floor((WHOLE - 1 - has) / ratio) + 1
      if within <= size then due[within] = (due[within] or 0) + 1 end
      if has > most and is_open[place] then richest, most = place, has end
    end
  end
  if not richest or richest == choice then return nil end
  local has, sum = credit[choice], 0
  local first = math.floor((WHOLE - 1 - most) / ratio) + 1
  local last = has < WHOLE and math.floor((WHOLE - 1 - has) / ratio) or size
  -- Up to `last`, `choice` is not among those that are due; from `first` on, an open queue is.
  for within = 1, math.min(last, size) do
    sum = sum + (due[within] or 0)
    if within >= first and sum >= within then return richest end
  end
  return nil
end

return M
