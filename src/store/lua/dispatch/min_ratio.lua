-- The minimum share of each queue (`min_dispatch_ratio`).
--
-- Promise: of any n consecutive dispatches of a pool, a queue that has something ready all the time gets at least ⌊ratio·n⌋.
--
-- A queue's credit is the largest ratio·n − (jobs that it got) over all windows of n dispatches that end now, or 0: it gains
-- `ratio` with each dispatch of the pool, pays a whole one when it is served, and never falls below 0, so being served often does
-- not count against it later. The promise holds exactly while every credit stays below a whole one.
--
-- A queue is due within j dispatches if its credit would reach a whole one with the j-th. As the ratios of all queues add up to 1 at
-- most, no credit ever gets there as long as no more than d queues are due within d dispatches, for each d. So any queue may be
-- served, unless exactly d are due within d dispatches and it is none of them: then the one with most credit goes.
--
-- Fetches may name some of the queues only, and so let a queue down that is due. It is then overdue: its credit is a whole one too
-- high until all that it is owed, up to MOST_OWED jobs, has been made up for by fetches that name it. The others keep their share
-- meanwhile.

local pool = require('dispatch/pool')

local orders = pool.orders

local floors = {}

local WHOLE = orders.whole
local MOST_OWED = 100 * WHOLE

-- The ratio of each queue in parts of a whole one. Requests without a pool may name more queues than can have it.
floors.ratio = function(prevention, order)
  if prevention.ratio == 0 then return 0 end
  return math.min(prevention.ratio, math.floor(WHOLE / math.max(#order, 1)))
end

-- Begins with the queues that have something ready now.
floors.open = function(book, ready)
  local credit, most, is_overdue = book.credit, 0, false
  for position = 1, #ready do
    local has = credit[ready[position]]
    if has >= WHOLE then
      is_overdue = true
    elseif has > most then
      most = has
    end
  end
  book.ready, book.most, book.is_overdue = ready, most, is_overdue
end

-- A dispatch: each queue that has something ready gains, and the one that was served pays.
floors.count = function(book, ratio, served)
  local ready, credit, most, is_overdue = book.ready, book.credit, 0, false
  for position = 1, #ready do
    local place = ready[position]
    local had = credit[place]
    local has = had + ratio
    if place == served then
      has = has - WHOLE
      if has < 0 or had >= WHOLE and has < WHOLE then has = 0 end
    elseif has >= WHOLE then
      if had < WHOLE then has = has + WHOLE end
      if has > MOST_OWED then has = MOST_OWED end
    end
    credit[place] = has
    if has >= WHOLE then
      is_overdue = true
    elseif has > most then
      most = has
    end
  end
  book.most, book.is_overdue = most, is_overdue
end

-- The open queue that is owed most, of those that are overdue.
floors.most_overdue = function(turn)
  local credit, best = turn.book.credit, nil
  for _, place in ipairs(turn.open) do
    if credit[place] >= WHOLE and (not best or credit[place] > credit[best]) then best = place end
  end
  return best
end

-- The open queue with most credit, if one of those that are due must be served now and `choice` is none of them; else nil.
floors.instead = function(turn, choice)
  local book, ratio = turn.book, turn.ratio
  local ready, credit, is_open = book.ready, book.credit, turn.is_open
  local size = #ready
  if book.most + size * ratio < WHOLE then return nil end -- nobody is due before all have had a turn
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
  -- Up to `last`, the choice is not among those that are due; from `first` on, an open queue is.
  for within = 1, math.min(last, size) do
    sum = sum + (due[within] or 0)
    if within >= first and sum >= within then return richest end
  end
  return nil
end

return {floors = floors}
