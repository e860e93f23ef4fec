-- Pools and their workers, and what keeps a pool's queues from starving.
--
-- pool:N       hash  strategy, queues and weights (in thousandths; separated by blanks), concurrency, sp (see below), full (1, or 2 where
--                    that was told), and what `commands/policy` compares
-- pool:N:run   set   jobs that its workers hold
-- pool:N:workers  zset  its workers by their last sign of life; member:W string the pool of a worker, with a TTL
-- policy       hash  `i Q`: the pool to which queue Q belongs alone; `o Q`: all pools that it belongs to; `sp` what holds where a
--                    pool says nothing else
--
-- sp: `rotation ms, ratio, most in a row, aging: every ms, step, most`; empty where it is off.

local ctx = require('lib/context')
local lane = require('queue/lane')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, int, remembering = runtime.on_begin, runtime.emit, runtime.int, runtime.remembering
local subject = runtime.subject
local queue_depth = lane.queue_depth
local call = redis.call
local concat, find, format, match = table.concat, string.find, string.format, string.match

local pool_open

-- Queues that are served together, in their order, and numbers by place in it.
-- `whole` is the credit that one job costs; a whole number of parts, because fractions would be rounded.
local orders = {whole = 1000000000}

-- How often a worker's last sign of life in a pool is noted.
local MEMBER_MS = 10000
local pools, default_prevention
local seen -- by pool and worker: its last sign of life there, or false

on_begin(function()
  pools, default_prevention, seen = {}, nil, {}
end)

-- Lists of which the text was made, by it: mostly that text is read next. Whoever reads it may change the list, so takes it out.
local MOST_WRITTEN = 256
local written, written_size = {}, 0

-- A list of numbers by place in an order, as many as there are queues.
orders.numbers = function(text, order, missing)
  local known = text and written[text]
  if known and #known == #order then
    written[text], written_size = nil, written_size - 1
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

local number_text = remembering(4096, function(number)
  return format('%.14g', number)
end)

-- The text of a list that nobody changes any more. Its numbers are whole, so the text says all of them.
orders.text = function(list)
  local parts = {}
  for place = 1, #list do parts[place] = number_text(list[place]) end
  local text = concat(parts, ' ')
  if not written[text] then
    if written_size == MOST_WRITTEN then written, written_size = {}, 0 end
    written[text], written_size = list, written_size + 1
  end
  return text
end

-- Queues that are served together: a list of them, the place of each in it, their weights by place and in all.
-- They are few, but for those of requests, which clients make up.
local order_read = remembering(256, function(_, queues, weights)
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

-- Those queues of an order that are asked for.
orders.among = function(order, queues)
  local asked, list = {}, {}
  for _, queue in ipairs(queues) do asked[queue] = true end
  for _, queue in ipairs(order) do
    if asked[queue] then list[#list + 1] = queue end
  end
  return list
end

-- A strategy and weights as turns know them: `strategy digest weights…`, the digest being that of the turn.
local how_text = remembering(1024, function(name, strategy, weights)
  return strategy .. ' ' .. string.sub(redis.sha1hex(name), 1, 16) .. weights
end)

local function how_of(strategy, queues, weight_of)
  local weights = {''}
  for position, queue in ipairs(queues) do weights[position + 1] = int(weight_of(queue)) end
  local numbers = concat(weights, ' ')
  return how_text(concat(queues, ' ') .. '/' .. strategy .. numbers, strategy, numbers)
end

-- The same of what a request says, `strategy weights…`, the weights in the order of its queues.
orders.requested = function(text, queues)
  local strategy, weights = match(text, '^(%S+)(.*)$')
  return how_text(concat(queues, ' ') .. '/' .. text, strategy, weights)
end

-- The same of what a worker registered, `strategy queue weight …`, for the queues that it asks for.
orders.registered = function(text, queues)
  local strategy, rest = match(text, '^(%S+)(.*)$')
  local weights = {}
  for queue, weight in string.gmatch(rest, ' (%S+) (%d+)') do weights[queue] = tonumber(weight) end
  return how_of(strategy, queues, function(queue) return weights[queue] or 1000 end)
end

-- Queues that a request names without being of their pool, as that pool serves them.
local function part_of(pool, queues)
  local order = pool.order
  local named = orders.among(order, queues)
  return {queues = named, how = how_of(pool.strategy, named, function(queue) return order.weights[order.places[queue]] end)}
end

-- The parts of a list of queues whose order is that of a pool, two queues at least. A pool that has all of them is the only one;
-- else a queue is the first pool's that has it.
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

-- What `sp` says. The ratio in parts of a whole credit, of which it is a whole number.
local prevention_of = remembering(256, function(text)
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

-- Queues that belong to another pool alone are nobody else's.
local function is_open_to(queue, pool)
  if not find(ctx.state.policy, 'i', 1, true) then return true end
  local owner = call('HGET', ctx.prefix .. 'policy', 'i ' .. queue)
  return not owner or owner == pool
end

-- Events of pools come at the edge: when all slots are taken and something waits, and not again before a slot was free.
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

-- Whether the worker of a request gave a sign of life in a pool a moment ago. All who ask in this call are looked up at once.
local function is_member(request, pool)
  local of_pool = seen[pool]
  if not of_pool then
    local workers = {}
    for _, other in ipairs(request.beside) do
      if other.pool == pool and other.worker ~= '' then workers[#workers + 1] = other.worker end
    end
    of_pool = {}
    local scores = #workers > 0 and call('ZMSCORE', ctx.prefix .. 'pool:' .. pool .. ':workers', unpack(workers)) or {}
    for position, score in ipairs(scores) do of_pool[workers[position]] = tonumber(score or nil) or false end
    seen[pool] = of_pool
  end
  local at = of_pool[request.worker]
  if at == nil then
    at = tonumber(call('ZSCORE', ctx.prefix .. 'pool:' .. pool .. ':workers', request.worker) or nil) or false
    of_pool[request.worker] = at
  end
  return at and ctx.now - at < math.min(MEMBER_MS, tonumber(ctx.args[8]) / 3)
end

-- Notes a worker's sign of life in its pool. Those that were silent for too long are forgotten, or names would pile up.
local function pool_join(request, pool)
  if is_member(request, pool) then return end
  local worker, members = request.worker, ctx.prefix .. 'pool:' .. pool .. ':workers'
  call('ZREMRANGEBYSCORE', members, '-inf', '(' .. int(ctx.now - tonumber(ctx.args[8])))
  call('ZADD', members, ctx.now_text, worker)
  call('SET', ctx.prefix .. 'member:' .. worker, pool, 'PX', ctx.args[8])
  seen[pool][worker] = ctx.now
end

-- The pool that a worker is of: the one it registered with, or named last when it fetched. One that is gone is none.
local function pool_of(worker, told)
  if not find(ctx.state.policy, 'p', 1, true) then return end
  local own = match(told or '', '^"(.*)"$')
  if own and pool_open(own) then return own end
  own = call('GET', ctx.prefix .. 'member:' .. worker)
  return own and pool_open(own) and own
end

-- Puts a request into the pool of its worker, which may have told it when it registered. A result, if it is another one.
local function pool_admit(request, told)
  -- Whoever was in this pool a moment ago is of no other.
  if request.pool ~= '' and not told and is_member(request, request.pool) then return end
  local own = pool_of(request.worker, told)
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
