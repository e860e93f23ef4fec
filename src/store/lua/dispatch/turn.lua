-- Chooses the queue to serve next: strategies, turns and prevention of starvation.
--
-- key                       type  meaning
-- pool:N:turn, turn:DIGEST  hash  the turn of a pool, or of requests with the same queues,
--                                 strategy and weights: at (queue served last), streak (how often
--                                 in a row); numbers by position in the order of queues:
--                                 current, credit, and, if fetches leave queues out, left_out and
--                                 headroom
--
-- `dispatch/pool` has the pools, `dispatch/min_ratio` the minimum share of each queue.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local source_module = require('dispatch/source')
local pool_module = require('dispatch/pool')
local min_ratio = require('dispatch/min_ratio')
local lease_limits = require('dispatch/lease_limits')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, int, apply_deferred = runtime.on_begin, runtime.int, runtime.apply_deferred
local is_paused, queue_depth = lane_module.is_paused, lane_module.queue_depth
local source_next = source_module.next
local is_open_to, orders = pool_module.is_open_to, pool_module.orders
local pool_open, pool_overloaded, prevention = pool_module.open, pool_module.overloaded, pool_module.prevention
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

-- A strategy with weights, and the digest of its turn (`orders.requested`).
local HOW = '^(%S+) (%S+) ?(.*)$'
-- How long the turn of a request is kept that does not belong to a pool.
local TURN_MS = 600000
local turns, progress_by_key
local overloaded -- pools that were found full
-- By queue: time since which nothing was taken, depth, and true if this call took a job from it.
local idle_since, depths, taken_from

on_begin(function()
  turns, progress_by_key, overloaded, idle_since, depths, taken_from = {}, {}, {}, {}, {}, {}
end)

-- Opens the stored state of a turn. Queues are identified by their position in its order. Requests
-- of one call that share a turn share this state, whichever queues they ask for.
local function progress_open(key, order, is_own)
  local progress = key and progress_by_key[key]
  if not progress then
    local f = key and call('HMGET', key, 'at', 'streak', 'current', 'credit', 'left_out', 'headroom') or {}
    progress = {key = key, order = order, is_own = is_own, at = order.places[f[1] or ''], streak = tonumber(f[2] or nil) or 0,
      current = orders.numbers(f[3], order, 0), credit = orders.numbers(f[4], order, 0), left_out = orders.numbers(f[5], order, 0),
      headroom = orders.numbers(f[6], order, 0), has_headroom = f[6] and true or false, ready = {}, closed = {}, most = 0, is_overdue = false,
      last = nil, moved = false}
    if key then progress_by_key[key] = progress end
  end
  return progress
end

-- Creates the turn of a request: the queues to choose from, the strategy and the stored state.
local function turn_make(request, pool)
  local strategy, digest, weights = match(request.how, HOW)
  local key = strategy and ctx.prefix .. 'turn:' .. digest
  local order, queues = pool and pool.order, request.queues
  if pool then
    strategy, key = pool.strategy, pool.key .. ':turn'
    queues = #queues == 0 and order or orders.among(order, queues)
  else
    order = orders.of(concat(queues, ' '), weights or '')
  end
  local prevents = prevention(pool)
  if not key and prevents.rotation then key = ctx.prefix .. 'turn:' .. string.sub(redis.sha1hex(concat(queues, ' ')), 1, 16) end
  return {pool = pool, strategy = strategy or 'strict', queues = queues, order = order, progress = progress_open(key, order, not pool),
    prevention = prevents, ratio = min_ratio.ratio(prevents, order), request = nil, open = nil, is_open = nil, sum = 0, is_late = false,
    best = nil, parts = nil}
end

-- Creates the part of a turn for queues that belong to a pool although the request names none. The
-- pool's strategy decides which of them is next. The outer turn prevents starvation.
local function part_make(turn, part)
  local strategy, digest, weights = match(part.how, HOW)
  local order = orders.of(concat(part.queues, ' '), weights)
  local inner = {strategy = strategy, order = order, progress = progress_open(ctx.prefix .. 'turn:' .. digest, order, true), ratio = 0, open = {},
    is_open = {}, sum = 0, best = nil, prevention = {}}
  for place, queue in ipairs(order) do
    local outer = turn.order.places[queue]
    turn.parts[outer] = inner
    if turn.is_open[outer] then
      inner.open[#inner.open + 1], inner.is_open[place] = place, true
      inner.sum = inner.sum + order.weights[place]
      if strategy == 'least-loaded' then depths[queue] = depths[queue] or queue_depth(queue) end
    end
  end
end

-- Returns the set of positions that a request names; nil if it names all queues of the order.
local function named_places(turn)
  if #turn.queues == #turn.order then return nil end
  local named = {}
  for _, queue in ipairs(turn.queues) do named[turn.order.places[queue]] = true end
  return named
end

-- Finds the queues of a turn that have something ready. With a minimum ratio, queues that the
-- request does not name count as well.
local function turn_find_ready(turn)
  local progress, open, is_open, sum = turn.progress, {}, {}, 0
  turn.open, turn.is_open = open, is_open
  if #turn.queues == 0 then return end
  local has_min_ratio = turn.ratio > 0
  local queues, named = has_min_ratio and turn.order or turn.queues, has_min_ratio and named_places(turn)
  local ready = named and {} or open
  local places, weights, rotation = turn.order.places, turn.order.weights, turn.prevention.rotation
  local pool, has_all = turn.pool and turn.pool.name, not ctx.state.paused and not find(ctx.state.policy, 'i', 1, true)
  local needs_depth, size = turn.strategy == 'least-loaded', 0
  local scores = call('ZMSCORE', lane_module.LIVE, unpack(queues))
  for position = 1, #queues do
    local queue, score = queues[position], scores[position]
    local place = places[queue]
    if not score or progress.closed[place] or not (has_all or not is_paused(queue) and is_open_to(queue, pool)) then
      progress.credit[place] = 0
    elseif named and not named[place] then
      ready[#ready + 1] = place
    else
      size = size + 1
      open[size], is_open[place] = place, true
      if named then ready[#ready + 1] = place end
      sum = sum + weights[place]
      if rotation then
        local since = idle_since[queue] or tonumber(score)
        idle_since[queue] = since
        if ctx.now - since > rotation then turn.is_late = true end
      end
      if needs_depth then depths[queue] = depths[queue] or queue_depth(queue) end
    end
  end
  turn.sum = sum
  if has_min_ratio then min_ratio.open(progress, ready, named and true) end
end

local function remove_place(list, place)
  for position = 1, #list do
    if list[position] == place then return table.remove(list, position) end
  end
end

-- Returns the part of a turn that a queue belongs to, and its position there.
local function part_at(turn, place)
  local part = turn.parts and turn.parts[place]
  return part, part and part.order.places[turn.order[place]]
end

-- Closes a queue that can give nothing more in this call.
local function turn_close_queue(turn, place)
  local progress = turn.progress
  if remove_place(turn.open, place) then turn.sum = turn.sum - turn.order.weights[place] end
  if progress.ready ~= turn.open then remove_place(progress.ready, place) end
  turn.is_open[place], turn.best, progress.credit[place], progress.closed[place] = nil, nil, 0, true
  local part, inner = part_at(turn, place)
  if part then turn_close_queue(part, inner) end
end

-- Returns the first open queue after position `last`, cyclically.
local function next_after(turn, last)
  local size, is_open = #turn.order, turn.is_open
  for place = (last or 0) + 1, (last or 0) + size do
    if is_open[(place - 1) % size + 1] then return (place - 1) % size + 1 end
  end
end

local CHOICES = {}

CHOICES['strict'] = function(turn)
  return turn.open[1]
end

CHOICES['round-robin'] = function(turn)
  return next_after(turn, turn.progress.at)
end

-- Smooth weighted round-robin: each queue gains its weight, and the one with the highest number is
-- served and pays the sum. Weights 5, 3, 1 interleave.
CHOICES['weighted'] = function(turn)
  if turn.best and turn.progress.last == turn then return turn.best end
  local best, most
  local open, current, weights = turn.open, turn.progress.current, turn.order.weights
  for position = 1, #open do
    local place = open[position]
    local has = current[place] + weights[place]
    if not best or has > most then best, most = place, has end
  end
  return best
end

CHOICES['least-loaded'] = function(turn)
  local best, most
  for _, place in ipairs(turn.open) do
    local depth = depths[turn.order[place]]
    if not best or depth > most then best, most = place, depth end
  end
  return best
end

-- Returns the open queue that has not been served for longest, if that exceeds the rotation
-- interval.
local function most_idle(turn)
  local best, most
  for _, place in ipairs(turn.open) do
    local since = idle_since[turn.order[place]]
    if ctx.now - since > turn.prevention.rotation and (not best or since < most) then best, most = place, since end
  end
  return best
end

local function strategy_choose(turn)
  local progress, most = turn.progress, turn.prevention.streak or 0
  local best = CHOICES[turn.strategy](turn)
  if best and most > 0 and best == progress.at and progress.streak >= most then return next_after(turn, best) end
  return best
end

-- Returns the queue to serve next: one that is overdue, one that is late, one that must be served
-- early because fetches leave it out, or the strategy's choice, unless that would cost another
-- queue its minimum share. Also returns the queue whose turn it was, if its pool serves another of
-- its queues instead.
local function turn_choose(turn)
  local has_min_ratio, best, turn_of = turn.ratio > 0, nil, nil
  if has_min_ratio and turn.progress.is_overdue then best = min_ratio.most_overdue(turn) end
  if not best and turn.is_late then best = most_idle(turn) end
  if not best and has_min_ratio and turn.progress.has_headroom then best = min_ratio.early(turn) end
  if not best then
    best = strategy_choose(turn)
    local part = best and part_at(turn, best)
    if part then best, turn_of = turn.order.places[part.order[strategy_choose(part)]], best end
  end
  local owed = has_min_ratio and best and min_ratio.required_instead(turn, best)
  if owed then return owed end
  return best, turn_of
end

-- Adds its weight to each ready queue and makes the served one pay. Finds the next queue on the
-- way.
local function advance_weights(turn, served)
  local open, current, weights, best, most = turn.open, turn.progress.current, turn.order.weights, nil, nil
  -- Turns alone never reach the total. A queue that is served out of turn, or skipped for one, owes
  -- or is owed at most one round.
  local total = turn.order.total
  for position = 1, #open do
    local place = open[position]
    local weight = weights[place]
    local has = current[place] + weight
    if place == served then has = math.max(has - turn.sum, -total) end
    if has > total then has = total end
    current[place] = has
    has = has + weight
    if not best or has > most then best, most = place, has end
  end
  turn.best = best
end

-- Moves the turn on after a queue was served.
local function turn_advance(turn, place)
  local progress = turn.progress
  progress.last = turn
  if turn.strategy == 'weighted' then advance_weights(turn, place) end
  progress.streak = progress.at == place and progress.streak + 1 or 1
  progress.at, progress.moved = place, true
end

-- Records that a queue was served in the turn of `turn_of`, by default its own.
local function turn_served(turn, place, turn_of)
  local queue = turn.order[place]
  if turn.ratio > 0 then min_ratio.count(turn, place) end
  turn_advance(turn, turn_of or place)
  local part, inner = part_at(turn, place)
  if part then turn_advance(part, inner) end
  idle_since[queue], taken_from[queue] = ctx.now, true
  if depths[queue] then depths[queue] = depths[queue] - 1 end
end

-- Returns true if the pool and the worker have room for another job.
local function turn_has_room(turn)
  local pool = turn.pool
  if pool and pool.most and pool.running >= pool.most then
    overloaded[pool] = true
    return false
  end
  local room = lease_limits.worker_room[turn.request.worker]
  return not room or room > 0
end

-- Returns the number of jobs to read ahead from a queue: its share. If the other queues have
-- nothing, more is read later.
local function turn_share(turn, place)
  if turn.strategy == 'strict' then return source_module.wanted_total end
  if turn.strategy == 'weighted' then return math.ceil(source_module.wanted_total * turn.order.weights[place] / math.max(turn.sum, 1)) end
  return math.ceil(source_module.wanted_total / math.max(#turn.open, 1)) + 1
end

local function turn_next(turn)
  while turn_has_room(turn) do
    local place, turn_of = turn_choose(turn)
    if not place then return nil end
    local queue = turn.order[place]
    source_module.wanted[queue] = source_module.wanted[queue] or turn_share(turn, place)
    local id, lane = source_next(queue, turn.prevention.aging)
    if id then
      turn_served(turn, place, turn_of)
      return id, lane
    end
    turn_close_queue(turn, place)
  end
end

-- Counts a job that was dispatched out of turn for the minimum shares.
local function count_dispatch(turn, queue)
  if turn.ratio == 0 then return end
  min_ratio.count(turn, turn.order.places[queue])
  turn.progress.moved = true
end

-- Returns the turn of a request. Requests of the same pool, or with the same queues and strategy,
-- share it.
local function turn_open(request)
  local pool, parts = request.pool ~= '' and pool_open(request.pool) or nil, nil
  if not pool and #request.queues > 1 and find(ctx.state.policy, 'p', 1, true) then
    parts = orders.parts(request.queues)
    if parts[1] and #parts[1].queues == #request.queues then -- the pool alone decides
      request.queues, request.how, parts = parts[1].queues, parts[1].how, nil
    end
  end
  local is_whole = pool and request.how == '' and #request.queues == 0
  local name = is_whole and pool or wire.join(pool and pool.name or '', request.how, concat(request.queues, ' '))
  local turn = turns[name]
  if not turn then
    turn = turn_make(request, pool)
    turn_find_ready(turn)
    if parts and parts[1] then
      turn.parts = {}
      for _, part in ipairs(parts) do part_make(turn, part) end
    end
    turns[name] = turn
  end
  turn.request, request.served = request, turn.queues
  return turn
end

local function turns_close()
  apply_deferred()
  for _, progress in pairs(progress_by_key) do
    if progress.moved then
      call('HSET', progress.key, 'at', progress.order[progress.at] or '', 'streak', int(progress.streak), 'current', orders.text(progress.current), 'credit',
        orders.text(progress.credit))
      if progress.has_headroom then
        call('HSET', progress.key, 'left_out', orders.text(progress.left_out), 'headroom', orders.text(progress.headroom))
      end
      if progress.is_own then call('PEXPIRE', progress.key, TURN_MS) end
    end
  end
  if find(ctx.state.policy, 's', 1, true) and next(taken_from) then
    local words = {}
    for queue in pairs(taken_from) do words[#words + 1], words[#words + 2] = ctx.now_text, queue end
    call('ZADD', lane_module.LIVE, 'XX', unpack(words))
  end
  for pool in pairs(overloaded) do pool_overloaded(pool) end
end

return {
  count_dispatch = count_dispatch,
  has_room = turn_has_room,
  next = turn_next,
  open = turn_open,
  turns_close = turns_close,
}
