-- Part: which queue is served next: strategies, turns, and what keeps a queue from starving.
--
-- T            hash  the turn: at (queue served last), streak (how often in a row), current and credit (by queue); T is pool:N:turn, or
--                    turn:DIGEST for a request that brings its own strategy
--
-- Pools are in `pool.lua`.

local turn_open, turn_next, turn_has_room, turns_close, admit, lease_under

do -- a script has room for 200 locals

-- How long a turn is kept of which no server setting tells.
local TURN_MS = 600000
local turns, books
local overloaded, rooms -- pools that were found full; by worker: how many jobs more it can hold
local quiet, depths -- by queue: since when nobody has taken from it, and how many jobs it has

at_begin(function()
  turns, books, overloaded, rooms, quiet, depths = {}, {}, {}, {}, {}, {}
end)

local function numbers(text, names)
  local list, position = {}, 0
  for number in string.gmatch(text or '', '%S+') do
    position = position + 1
    if names[position] then list[names[position]] = tonumber(number) end
  end
  return list
end

-- What is known of a turn between calls. Requests of one call that share a turn share it, whichever queues they ask for.
local function book_open(key, order, is_own)
  local book = key and books[key]
  if not book then
    local f = key and call('HMGET', key, 'at', 'streak', 'current', 'credit') or {}
    book = {key = key, order = order, is_own = is_own, at = f[1], streak = tonumber(f[2] or nil) or 0,
      current = numbers(f[3], order), credit = numbers(f[4], order)}
    if key then books[key] = book end
  end
  return book
end

-- The queues among which a request chooses, in what way, and whose turn it was.
local function turn_make(request, pool)
  local strategy, digest, weights = match(request.how, '^(%S+) (%S+) ?(.*)$')
  local turn = {pool = pool, strategy = 'strict', queues = request.queues, weights = {}, got = {}, total = 0}
  local key, order, is_own = nil, request.queues, true
  if pool then
    turn.strategy, key, order, is_own = pool.strategy, pool.key .. ':turn', pool.queues, false
    for position, queue in ipairs(pool.queues) do turn.weights[queue] = pool.weights[position] end
    turn.queues = {}
    local asked = {}
    for _, queue in ipairs(request.queues) do asked[queue] = true end
    for _, queue in ipairs(pool.queues) do
      if #request.queues == 0 or asked[queue] then turn.queues[#turn.queues + 1] = queue end
    end
  elseif strategy then
    turn.strategy, key = strategy, P .. 'turn:' .. digest
    turn.weights = numbers(weights, request.queues)
  end
  turn.prevention = prevention(pool)
  if not key and turn.prevention.rotation then key = P .. 'turn:' .. request.digest end
  for _, queue in ipairs(order) do turn.total = turn.total + (turn.weights[queue] or 1000) end
  turn.book = book_open(key, order, is_own)
  return turn
end

-- Queues of a turn that have something ready. One that has nothing has no credit.
local function turn_look(turn)
  turn.open, turn.is_open, turn.sum = {}, {}, 0
  if #turn.queues == 0 then return end
  local scores = call('ZMSCORE', LIVE, unpack(turn.queues))
  for position, queue in ipairs(turn.queues) do
    if scores[position] and not is_paused(queue) and is_open_to(queue, turn.pool and turn.pool.name) then
      quiet[queue] = quiet[queue] or tonumber(scores[position])
      turn.open[#turn.open + 1], turn.is_open[queue] = queue, true
      turn.sum = turn.sum + (turn.weights[queue] or 1000)
      turn.is_late = turn.is_late or turn.prevention.rotation and now - quiet[queue] > turn.prevention.rotation
      if turn.strategy == 'least-loaded' then depths[queue] = depths[queue] or queue_depth(queue) end
    else
      turn.book.credit[queue] = nil
    end
  end
end

-- A queue can give nothing more in this call.
local function turn_close_queue(turn, queue)
  for position, name in ipairs(turn.open) do
    if name == queue then
      table.remove(turn.open, position)
      turn.sum = turn.sum - (turn.weights[queue] or 1000)
    end
  end
  turn.is_open[queue], turn.book.credit[queue] = nil, nil
end

-- The first open queue after one in the order of the pool, or of the request.
local function next_after(turn, last)
  local first, past
  for _, queue in ipairs(turn.book.order) do
    if turn.is_open[queue] then
      if past then return queue end
      first = first or queue
    end
    if queue == last then past = true end
  end
  return first
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
  local best, most
  local open, current, weights = turn.open, turn.book.current, turn.weights
  for position = 1, #open do
    local queue = open[position]
    local has = (current[queue] or 0) + (weights[queue] or 1000)
    if not best or has > most then best, most = queue, has end
  end
  return best
end

CHOICES['least-loaded'] = function(turn)
  local best
  for _, queue in ipairs(turn.open) do
    if not best or depths[queue] > depths[best] then best = queue end
  end
  return best
end

-- A queue that must be served before any strategy is asked: one with a whole credit, or nobody's for too long.
local function owed(turn)
  local prevention, credits, best = turn.prevention, turn.book.credit, nil
  -- Nobody has a whole credit if nobody had when this turn was served last.
  local may_owe = turn.book.last ~= turn or turn.richest >= 1 - 1e-9
  if prevention.ratio and prevention.ratio > 0 and may_owe then
    for _, queue in ipairs(turn.open) do
      local credit = credits[queue] or 0
      if credit >= 1 - 1e-9 and (not best or credit > credits[best]) then best = queue end
    end
    if best then
      turn.pays = best
      return best
    end
  end
  if turn.is_late then
    for _, queue in ipairs(turn.open) do
      if now - quiet[queue] > prevention.rotation and (not best or quiet[queue] < quiet[best]) then best = queue end
    end
  end
  return best
end

local function turn_choose(turn)
  turn.pays = nil
  local best = owed(turn)
  if best then return best end
  best = CHOICES[turn.strategy](turn)
  local most, book = turn.prevention.streak or 0, turn.book
  if best and most > 0 and best == book.at and book.streak >= most then return next_after(turn, best) end
  return best
end

-- A queue was served: who has something ready earns, and the turn moves on.
local function turn_served(turn, queue)
  local ratio, book = turn.prevention.ratio or 0, turn.book
  local credit, current, open, weights = book.credit, book.current, turn.open, turn.weights
  if ratio > 0 then
    local richest = 0
    for position = 1, #open do
      local name = open[position]
      local has = (credit[name] or 0) + ratio
      credit[name] = has
      if has > richest then richest = has end
    end
    book.last, turn.richest = turn, richest
    if turn.pays then credit[queue] = math.max((credit[queue] or 0) - 1, 0) end
  end
  if turn.strategy == 'weighted' then
    -- Turns alone do not reach the total; who is served out of turn, or passed over for it, owes or is owed one round at most.
    local total = turn.total
    for position = 1, #open do
      local name = open[position]
      local has = (current[name] or 0) + (weights[name] or 1000)
      if name == queue then has = math.max(has - turn.sum, -total) end
      current[name] = has > total and total or has
    end
  end
  book.streak = book.at == queue and book.streak + 1 or 1
  book.at, book.moved, quiet[queue] = queue, true, now
  turn.got[queue] = true
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

turn_next = function(turn)
  while turn_has_room(turn) do
    local queue = turn_choose(turn)
    if not queue then return nil end
    local id, lane = source_next(queue, turn.prevention.aging)
    if id then
      turn_served(turn, queue)
      return id, lane
    end
    turn_close_queue(turn, queue)
  end
end

-- The turn of a request; requests of one pool, or of the same queues and strategy, share it.
turn_open = function(request)
  local pool = request.pool ~= '' and pool_open(request.pool) or nil
  local name = (pool and pool.name or '') .. '\31' .. request.how .. '\31' .. concat(request.queues, ' ')
  local turn = turns[name]
  if not turn then
    turn = turn_make(request, pool)
    turn_look(turn)
    -- What a queue gives is not more than its part, unless the others have nothing: then it is read again.
    local share = turn.strategy == 'strict' and wanted_in_all or math.ceil(wanted_in_all / math.max(#turn.open, 1)) + 1
    for _, queue in ipairs(turn.queues) do wanted[queue] = math.max(wanted[queue] or 0, share) end
    turns[name] = turn
  end
  turn.request, request.served = request, turn.queues
  return turn
end

local function list(values, names)
  local parts = {}
  for position, name in ipairs(names) do parts[position] = format('%.10g', values[name] or 0) end
  return concat(parts, ' ')
end

turns_close = function()
  settle()
  local watched = find(state[7] or '', 's', 1, true)
  for _, book in pairs(books) do
    if book.moved then
      call('HSET', book.key, 'at', book.at, 'streak', int(book.streak), 'current', list(book.current, book.order), 'credit',
        list(book.credit, book.order))
      if book.is_own then call('PEXPIRE', book.key, TURN_MS) end
    end
  end
  for _, turn in pairs(turns) do
    if watched then
      for queue in pairs(turn.got) do call('ZADD', LIVE, 'XX', now_text, queue) end
    end
  end
  for pool in pairs(overloaded) do pool_overloaded(pool) end
end

-- Puts a request into its worker's pool and bounds it by the worker's capacity. A result, if the worker is of another pool.
admit = function(request)
  local worker = request.worker
  if worker == '' then return end
  local told = state[10] and call('HMGET', P .. 'worker:' .. worker, 'pool', 'concurrency') or {}
  -- Whoever was in this pool a moment ago is of no other.
  if request.pool == '' or told[1] or not is_member(worker, request.pool) then
    local own = pool_of(worker, told[1])
    if own then
      if request.pool ~= '' and request.pool ~= own then return {'pool', own} end
      request.pool = own
    end
    if request.pool ~= '' and pool_open(request.pool) then pool_join(worker, request.pool) end
  end
  local most = tonumber(told[2] or nil)
  if most and most > 0 and not rooms[worker] then
    rooms[worker] = most - call('ZLEXCOUNT', HELD, '[' .. worker .. '\31', '(' .. worker .. '\32')
  end
end

-- What a lease counts against, besides its queue.
lease_under = function(job, lane, request)
  for _, key in ipairs(lane_limits(job.queue, lane.name)) do
    local limit = limit_open(key)
    limit_start(limit)
    gather('SADD', limit.name .. ':run', job.id)
    local tenant = limit.waiting > 0 and lane_tenant(lane.name)
    if tenant then -- the more it gets under this limit, the later it comes when it waits for it
      local tag = limit_tag(limit, tenant) + 1000000 / sharing_weight(job.queue, tenant, job.rule)
      call('HSET', limit.name .. ':tags', tenant, int(tag))
    end
  end
  local source = sources[job.queue]
  if source.limit then
    limit_start(source.limit)
    queue_goes(source, job.id)
  end
  if request.pool ~= '' then
    local pool = pool_open(request.pool)
    if pool then
      pool.running, job.pool = pool.running + 1, pool.name
      gather('SADD', pool.key .. ':run', job.id)
    end
  end
  local room = rooms[request.worker]
  if room then rooms[request.worker] = room - 1 end
end

end
