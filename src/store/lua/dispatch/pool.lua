-- Pools, their workers, and the settings that prevent starvation.
--
-- key             type    meaning
-- pool:N          hash    strategy; queues and weights (in thousandths), separated by spaces;
--                         concurrency; sp, see below; full (1, or 2 once it was reported)
-- pool:N:run      set     jobs that its workers hold
-- pool:N:workers  zset    its workers by last sign of life
-- member:W        string  the pool of a worker, with a TTL
-- policy          hash    `i Q`: the isolated pool that alone may serve queue Q; `o Q`: all pools
--                         with queue Q; `sp`: the default for pools that have none
--
-- sp: `rotation ms, ratio, max in a row, aging: every ms, step, max`; empty if it is off.

local ctx = require('lib/context')
local lane = require('queue/lane')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, int, memoize = runtime.on_begin, runtime.emit, runtime.int, runtime.memoize
local subject = runtime.subject
local queue_depth = lane.queue_depth
local call = redis.call
local concat, find, format, match = table.concat, string.find, string.format, string.match

local pool_open

-- Functions on orders: lists of queues that are served together, and numbers by position in them.
-- `whole` is the credit that one job costs. Credits are whole numbers, because fractions would be
-- rounded.
local orders = {whole = 1000000000}

-- Interval at which a worker's sign of life in a pool is stored.
local MEMBER_MS = 10000
local pools, default_prevention
local last_seen -- by pool and worker: its last sign of life there, or false

on_begin(function()
  pools, default_prevention, last_seen = {}, nil, {}
end)

-- Lists by the text that was made of them, because that text is mostly the next one to be read. A
-- reader may change the list, so it removes it from this table.
local MAX_ENCODED = 256
local encoded, encoded_size = {}, 0

-- Decodes a list of numbers, one for each queue of an order; `missing` replaces numbers that are
-- not there.
orders.numbers = function(text, order, missing)
  local known = text and encoded[text]
  if known and #known == #order then
    encoded[text], encoded_size = nil, encoded_size - 1
    return known
  end
  local list, place = {}, 0
  for number in string.gmatch(text or '', '%S+') do
    if place == #order then break end
    place = place + 1
    list[place] = tonumber(number)
  end
  for other = place + 1, #order do list[other] = missing end
  return list
end

local number_text = memoize(4096, function(number)
  return format('%.14g', number)
end)

-- Encodes a list that nothing changes afterwards. Its numbers are whole, so the text is exact.
orders.text = function(list)
  local parts = {}
  for place = 1, #list do parts[place] = number_text(list[place]) end
  local text = concat(parts, ' ')
  if not encoded[text] then
    if encoded_size == MAX_ENCODED then encoded, encoded_size = {}, 0 end
    encoded[text], encoded_size = list, encoded_size + 1
  end
  return text
end

-- Decodes an order: a list of queues, their positions, their weights by position, and the sum of
-- the weights. The cache is small because clients choose the queues of their requests freely.
local order_read = memoize(256, function(_, queues, weights)
  local order = {places = {}, weights = nil, total = 0}
  for queue in string.gmatch(queues, '%S+') do
    order[#order + 1] = queue
    order.places[queue] = #order
  end
  order.weights = orders.numbers(weights, order, 1000)
  for place = 1, #order do order.total = order.total + order.weights[place] end
  return order
end)

orders.of = function(queues, weights)
  return order_read(wire.join(queues, weights), queues, weights)
end

-- Returns those queues of an order that are in `queues`.
orders.among = function(order, queues)
  local wanted, list = {}, {}
  for _, queue in ipairs(queues) do wanted[queue] = true end
  for _, queue in ipairs(order) do
    if wanted[queue] then list[#list + 1] = queue end
  end
  return list
end

-- Encodes how a turn chooses: `strategy digest weights…`. The digest identifies the turn.
local how_text = memoize(1024, function(name, strategy, weights)
  return strategy .. ' ' .. string.sub(redis.sha1hex(name), 1, 16) .. weights
end)

local function how_of(strategy, queues, weight_of)
  local weights = {''}
  for position, queue in ipairs(queues) do weights[position + 1] = int(weight_of(queue)) end
  local numbers = concat(weights, ' ')
  return how_text(concat(queues, ' ') .. '/' .. strategy .. numbers, strategy, numbers)
end

-- Does so for the strategy of a request, `strategy weights…`, with weights in the order of its
-- queues.
orders.requested = function(text, queues)
  local strategy, weights = match(text, '^(%S+)(.*)$')
  return how_text(concat(queues, ' ') .. '/' .. text, strategy, weights)
end

-- Does so for the strategy that a worker registered, `strategy queue weight …`, for the queues that
-- it asks for.
orders.registered = function(text, queues)
  local strategy, rest = match(text, '^(%S+)(.*)$')
  local weights = {}
  for queue, weight in string.gmatch(rest, ' (%S+) (%d+)') do weights[queue] = tonumber(weight) end
  return how_of(strategy, queues, function(queue) return weights[queue] or 1000 end)
end

-- Returns the part of a request that names queues of a pool without naming the pool. They are
-- served as the pool serves them.
local function part_of(pool, queues)
  local order = pool.order
  local named = orders.among(order, queues)
  return {queues = named, how = how_of(pool.strategy, named, function(queue) return order.weights[order.places[queue]] end)}
end

-- Returns the parts of a list of queues, each with at least two queues of the same pool. If a pool
-- has all of the queues, its part is the only one. Otherwise, a queue belongs to the first pool
-- that has it.
orders.parts = function(queues)
  local fields, parts, counts, first = {}, {}, {}, {}
  for position, queue in ipairs(queues) do fields[position] = 'o ' .. queue end
  for position, names in ipairs(call('HMGET', ctx.prefix .. 'policy', unpack(fields))) do
    for name in string.gmatch(names or '', '%S+') do
      counts[name] = (counts[name] or 0) + 1
      if counts[name] == #queues and pool_open(name) then return {part_of(pool_open(name), queues)} end
    end
    local name = match(names or '', '^%S+')
    if name then
      first[name] = first[name] or {}
      table.insert(first[name], queues[position])
    end
  end
  for name, named in pairs(first) do
    if #named > 1 and pool_open(name) then parts[#parts + 1] = part_of(pool_open(name), named) end
  end
  return parts
end

pool_open = function(name)
  local pool = pools[name]
  if pool == nil then
    local key = ctx.prefix .. 'pool:' .. name
    local f = call('HMGET', key, 'strategy', 'queues', 'weights', 'concurrency', 'sp', 'full')
    pool = f[1] and {name = name, key = key, strategy = f[1], order = orders.of(f[2], f[3]), most = tonumber(f[4] or nil), sp = f[5],
      full = f[6], run = key .. ':run', running = call('SCARD', key .. ':run')} or false
    pools[name] = pool
  end
  return pool
end

-- Decodes `sp`. The ratio is in whole parts of a credit.
local prevention_of = memoize(256, function(text)
  local rotation, ratio, streak, every, step, most = match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  if not rotation then return {ratio = 0} end
  local aging = tonumber(step) > 0 and {every = tonumber(every), step = tonumber(step), max = tonumber(most)} or nil
  return {rotation = tonumber(rotation), ratio = math.floor(tonumber(ratio) * orders.whole + 0.5), streak = tonumber(streak), aging = aging}
end)

local function prevention(pool)
  if pool and pool.sp and pool.sp ~= '' then return prevention_of(pool.sp ~= 'off' and pool.sp or '') end
  if not default_prevention then
    default_prevention = prevention_of(find(ctx.state.policy, 's', 1, true) and call('HGET', ctx.prefix .. 'policy', 'sp') or '')
  end
  return default_prevention
end

-- Returns true unless the queue belongs to another, isolated pool.
local function is_open_to(queue, pool)
  if not find(ctx.state.policy, 'i', 1, true) then return true end
  local owner = call('HGET', ctx.prefix .. 'policy', 'i ' .. queue)
  return not owner or owner == pool
end

-- Reports a pool with all slots taken if jobs wait for it: once, until a slot was free.
local function pool_overloaded(pool)
  if pool.full == '2' then return end
  local waiting = 0
  for _, queue in ipairs(pool.order) do waiting = waiting + math.max(queue_depth(queue), 0) end
  local full = waiting > 0 and '2' or '1'
  if pool.full ~= full then call('HSET', pool.key, 'full', full) end
  if waiting == 0 then return end
  emit('scheduling.pool_overloaded', subject(''), '"pool":"' .. pool.name .. '","active_jobs":' .. int(pool.running)
    .. ',"waiting_jobs":' .. int(waiting))
end

-- Returns true if the worker of a request gave a recent sign of life in a pool. Looks up the
-- workers of all requests of the call at once.
local function is_member(request, pool)
  local of_pool = last_seen[pool]
  if not of_pool then
    local workers = {}
    for _, other in ipairs(request.beside) do
      if other.pool == pool and other.worker ~= '' then workers[#workers + 1] = other.worker end
    end
    of_pool = {}
    local scores = #workers > 0 and call('ZMSCORE', ctx.prefix .. 'pool:' .. pool .. ':workers', unpack(workers)) or {}
    for position, score in ipairs(scores) do of_pool[workers[position]] = tonumber(score or nil) or false end
    last_seen[pool] = of_pool
  end
  local at = of_pool[request.worker]
  if at == nil then
    at = tonumber(call('ZSCORE', ctx.prefix .. 'pool:' .. pool .. ':workers', request.worker) or nil) or false
    of_pool[request.worker] = at
  end
  return at and ctx.now - at < math.min(MEMBER_MS, ctx.settings.dead_after / 3)
end

-- Stores a worker's sign of life in its pool. Forgets workers that were silent for too long,
-- because otherwise their names would accumulate.
local function pool_join(request, pool)
  if is_member(request, pool) then return end
  local worker, members = request.worker, ctx.prefix .. 'pool:' .. pool .. ':workers'
  call('ZREMRANGEBYSCORE', members, '-inf', '(' .. int(ctx.now - ctx.settings.dead_after))
  call('ZADD', members, ctx.now_text, worker)
  call('SET', ctx.prefix .. 'member:' .. worker, pool, 'PX', int(ctx.settings.dead_after))
  last_seen[pool][worker] = ctx.now
end

-- Returns the pool of a worker: the one that it registered with, or the one that it named last in a
-- fetch. Ignores pools that do not exist any more.
local function pool_of(worker, registered)
  if not find(ctx.state.policy, 'p', 1, true) then return end
  local own = match(registered or '', '^"(.*)"$')
  if own and pool_open(own) then return own end
  own = call('GET', ctx.prefix .. 'member:' .. worker)
  return own and pool_open(own) and own
end

-- Assigns a request to the pool of its worker. `registered` is the pool that the worker
-- registered, as JSON. Returns the result that refuses the request if the worker belongs to another
-- pool.
local function pool_admit(request, registered)
  -- A worker that was just seen in this pool belongs to no other.
  if request.pool ~= '' and not registered and is_member(request, request.pool) then return end
  local own = pool_of(request.worker, registered)
  if own then
    if request.pool ~= '' and request.pool ~= own then return {'pool', own} end
    request.pool = own
  end
  if request.pool ~= '' and pool_open(request.pool) then pool_join(request, request.pool) end
end

return {
  is_open_to = is_open_to,
  orders = orders,
  admit = pool_admit,
  open = pool_open,
  overloaded = pool_overloaded,
  prevention = prevention,
}
