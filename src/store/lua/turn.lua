-- Part: which queue is served next: strategies, turns, and what keeps a queue from starving.
--
-- T            hash  the turn: at (queue served last), streak (how often in a row), current and credit (by queue, in parts of a
--                    whole one); T is pool:N:turn, or turn:DIGEST for a request that brings its own strategy
--
-- Pools are in `pool.lua`.

local turn_open, turn_next, turn_has_room, turns_close, admit, lease_under

do

-- A script has room for 200 locals, and a function for as many of its own.
local function define()

local WHOLE = orders.whole
-- How long a turn is kept of which no server setting tells.
local TURN_MS = 600000
local turns, books
local overloaded, rooms -- pools that were found full; by worker: how many jobs more it can hold
local quiet, depths, got -- by queue: since when nobody has taken from it, how many jobs it has; those that gave one

at_begin(function()
  turns, books, overloaded, rooms, quiet, depths, got = {}, {}, {}, {}, {}, {}, {}
end)

-- What is known of a turn between calls; queues are known by their place in its order. Requests of one call that share a turn share
-- it, whichever queues they ask for.
local function book_open(key, order, is_own)
  local book = key and books[key]
  if not book then
    local f = key and call('HMGET', key, 'at', 'streak', 'current', 'credit') or {}
    book = {key = key, order = order, is_own = is_own, at = order.places[f[1] or ''], streak = tonumber(f[2] or nil) or 0,
      current = orders.numbers(f[3], order, 0), credit = orders.numbers(f[4], order, 0), last = nil, moved = false}
    if key then books[key] = book end
  end
  return book
end

-- The queues among which a request chooses, in what way, and whose turn it was.
local function turn_make(request, pool)
  local strategy, digest, weights = match(request.how, '^(%S+) (%S+) ?(.*)$')
  local key = strategy and P .. 'turn:' .. digest
  local order, queues = pool and pool.order, request.queues
  if pool then
    strategy, key = pool.strategy, pool.key .. ':turn'
    queues = #queues == 0 and order or orders.among(order, queues)
  else
    order = orders.of(concat(queues, ' '), weights or '')
  end
  local holds = prevention(pool)
  if not key and holds.rotation then key = P .. 'turn:' .. request.digest end
  return {pool = pool, strategy = strategy or 'strict', queues = queues, order = order, book = book_open(key, order, not pool),
    prevention = holds, request = nil, open = nil, is_open = nil, sum = 0, is_late = false, richest = nil, most = 0, best = nil, pays = nil}
end

-- Queues of a turn that have something ready. One that has nothing has no credit.
local function turn_look(turn)
  local queues, book, open, is_open, sum = turn.queues, turn.book, {}, {}, 0
  turn.open, turn.is_open = open, is_open
  if #queues == 0 then return end
  local places, weights, rotation = turn.order.places, turn.order.weights, turn.prevention.rotation
  local pool, has_all = turn.pool and turn.pool.name, not state.paused and not find(state.policy, 'i', 1, true)
  local asks_depth, size = turn.strategy == 'least-loaded', 0
  local scores = call('ZMSCORE', LIVE, unpack(queues))
  for position = 1, #queues do
    local queue, score = queues[position], scores[position]
    local place = places[queue]
    if score and (has_all or not is_paused(queue) and is_open_to(queue, pool)) then
      size = size + 1
      open[size], is_open[place] = place, true
      sum = sum + weights[place]
      if rotation then
        local since = quiet[queue] or tonumber(score)
        quiet[queue] = since
        if now - since > rotation then turn.is_late = true end
      end
      if asks_depth then depths[queue] = depths[queue] or queue_depth(queue) end
    else
      book.credit[place] = 0
    end
  end
  turn.sum = sum
end

-- A queue can give nothing more in this call.
local function turn_close_queue(turn, place)
  for position, other in ipairs(turn.open) do
    if other == place then
      table.remove(turn.open, position)
      turn.sum = turn.sum - turn.order.weights[place]
      break
    end
  end
  turn.is_open[place], turn.book.credit[place], turn.best, turn.richest = nil, 0, nil, nil
end

-- The first open queue after one in the order of the pool, or of the request.
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
  return next_after(turn, turn.book.at)
end

-- Smooth: each gains its weight, the one that has most goes and pays for all. 5, 3, 1 interleave.
CHOICES['weighted'] = function(turn)
  if turn.best and turn.book.last == turn then return turn.best end
  local best, most
  local open, current, weights = turn.open, turn.book.current, turn.order.weights
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

-- The open queue with most credit, and that credit, after each open one has got some more and one has paid.
local function credits_gain(turn, ratio, pays)
  local open, credit, richest, most = turn.open, turn.book.credit, nil, 0
  for position = 1, #open do
    local place = open[position]
    local has = credit[place] + ratio
    if place == pays then has = math.max(has - WHOLE, 0) end
    credit[place] = has
    if has > most then richest, most = place, has end
  end
  turn.richest, turn.most = richest, most
end

-- A queue that must be served before any strategy is asked: one with a whole credit, or nobody's for too long.
local function owed(turn)
  local prevention, best, most = turn.prevention, nil, nil
  if prevention.ratio > 0 then
    if turn.book.last ~= turn or not turn.richest then credits_gain(turn, 0) end
    if turn.most >= WHOLE then
      turn.pays = turn.richest
      return turn.richest
    end
  end
  if turn.is_late then
    for _, place in ipairs(turn.open) do
      local since = quiet[turn.order[place]]
      if now - since > prevention.rotation and (not best or since < most) then best, most = place, since end
    end
  end
  return best
end

local function turn_choose(turn)
  local book = turn.book
  turn.pays = nil
  local best = owed(turn)
  if best then return best end
  best = CHOICES[turn.strategy](turn)
  local most = turn.prevention.streak or 0
  if best and most > 0 and best == book.at and book.streak >= most then return next_after(turn, best) end
  return best
end

-- Who has something ready gains its weight, and the one that was served pays. Who will have most then is found on the way.
local function weights_gain(turn, served)
  local open, current, weights, best, most = turn.open, turn.book.current, turn.order.weights, nil, nil
  -- Turns alone do not reach the total; who is served out of turn, or passed over for it, owes or is owed one round at most.
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

-- A queue was served: who has something ready earns, and the turn moves on.
local function turn_served(turn, place)
  local ratio, book = turn.prevention.ratio, turn.book
  local queue = turn.order[place]
  book.last = turn
  if ratio > 0 then credits_gain(turn, ratio, turn.pays) end
  if turn.strategy == 'weighted' then weights_gain(turn, place) end
  book.streak = book.at == place and book.streak + 1 or 1
  book.at, book.moved, quiet[queue] = place, true, now
  got[queue] = true
  if depths[queue] then depths[queue] = depths[queue] - 1 end
end

-- Room of the pool and of the worker for another job.
turn_has_room = function(turn)
  local pool = turn.pool
  if pool and pool.most and pool.running >= pool.most then
    overloaded[pool] = true
    return false
  end
  local room = rooms[turn.request.worker]
  return not room or room > 0
end

-- What a queue gives is not more than its part, unless the others have nothing: then it is read again.
local function turn_share(turn, place)
  if turn.strategy == 'strict' then return wanted_in_all end
  if turn.strategy == 'weighted' then return math.ceil(wanted_in_all * turn.order.weights[place] / math.max(turn.sum, 1)) end
  return math.ceil(wanted_in_all / math.max(#turn.open, 1)) + 1
end

turn_next = function(turn)
  while turn_has_room(turn) do
    local place = turn_choose(turn)
    if not place then return nil end
    local queue = turn.order[place]
    wanted[queue] = wanted[queue] or turn_share(turn, place)
    local id, lane = source_next(queue, turn.prevention.aging)
    if id then
      turn_served(turn, place)
      return id, lane
    end
    turn_close_queue(turn, place)
  end
end

-- The turn of a request; requests of one pool, or of the same queues and strategy, share it.
turn_open = function(request)
  local pool = request.pool ~= '' and pool_open(request.pool) or nil
  local is_whole = pool and request.how == '' and #request.queues == 0
  local name = is_whole and pool or (pool and pool.name or '') .. '\31' .. request.how .. '\31' .. concat(request.queues, ' ')
  local turn = turns[name]
  if not turn then
    turn = turn_make(request, pool)
    turn_look(turn)
    turns[name] = turn
  end
  turn.request, request.served = request, turn.queues
  return turn
end

turns_close = function()
  settle()
  for _, book in pairs(books) do
    if book.moved then
      call('HSET', book.key, 'at', book.order[book.at], 'streak', int(book.streak), 'current', orders.text(book.current), 'credit',
        orders.text(book.credit))
      if book.is_own then call('PEXPIRE', book.key, TURN_MS) end
    end
  end
  if find(state.policy, 's', 1, true) and next(got) then
    local words = {}
    for queue in pairs(got) do words[#words + 1], words[#words + 2] = now_text, queue end
    call('ZADD', LIVE, 'XX', unpack(words))
  end
  for pool in pairs(overloaded) do pool_overloaded(pool) end
end

-- Puts a request into its worker's pool and bounds it by the worker's capacity. A result, if the worker is of another pool.
admit = function(request)
  local worker = request.worker
  if worker == '' then return end
  local told = state.gated and call('HMGET', P .. 'worker:' .. worker, 'pool', 'concurrency') or {}
  local refused = pool_admit(request, told[1])
  if refused then return refused end
  local most = tonumber(told[2] or nil)
  if most and most > 0 and not rooms[worker] then
    rooms[worker] = most - call('ZLEXCOUNT', HELD, '[' .. worker .. '\31', '(' .. worker .. '\32')
  end
end

-- What a lease counts against, besides its queue. The name of the pool among that, or ''.
lease_under = function(queue, id, rule, lane, request)
  local keys = limits_of(queue, lane)
  for place = 1, #keys do
    local key = keys[place]
    local limit = limit_open(key)
    limit_start(limit)
    if not is_cap(key) then gather('SADD', limit.run, id) end
    local tenant = limit.waiting > 0 and lane_tenant(lane.name)
    if tenant then -- the more it gets under this limit, the later it comes when it waits for it
      local tag = limit_tag(limit, tenant) + 1000000 / sharing_weight(queue, tenant, rule)
      call('HSET', limit.name .. ':tags', tenant, int(tag))
    end
  end
  local source = sources[queue]
  if source.limit then
    limit_start(source.limit)
    queue_goes(source, id)
  end
  local room = rooms[request.worker]
  if room then rooms[request.worker] = room - 1 end
  local pool = request.pool ~= '' and pool_open(request.pool)
  if not pool then return '' end
  pool.running = pool.running + 1
  gather('SADD', pool.run, id)
  return pool.name
end

end
define()

end
