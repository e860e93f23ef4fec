-- Part: pools and their workers, and what keeps a pool's queues from starving.
--
-- pool:N       hash  strategy, queues and weights (in thousandths; separated by blanks), concurrency, sp (see below), full (1, or 2 where
--                    that was told), and what `policy.lua` compares
-- pool:N:run   set   jobs that its workers hold
-- pool:N:workers  zset  its workers by their last sign of life; member:W string the pool of a worker, with a TTL
-- policy       hash  `i Q`: the pool to which queue Q belongs alone; `sp` what holds where a pool says nothing else
--
-- sp: `rotation ms, ratio, most in a row, aging: every ms, step, most`; empty where it is off.

local pool_open, pool_overloaded, is_member, pool_join, pool_of, prevention, is_open_to

do -- a script has room for 200 locals

-- How often a worker's last sign of life in a pool is noted.
local MEMBER_MS = 10000
local pools, default_prevention

at_begin(function()
  pools, default_prevention = {}, nil
end)

pool_open = function(name)
  local pool = pools[name]
  if pool == nil then
    local key = P .. 'pool:' .. name
    local f = call('HMGET', key, 'strategy', 'queues', 'weights', 'concurrency', 'sp', 'full')
    pool = f[1] and {name = name, key = key, strategy = f[1], queues = {}, weights = {}, most = tonumber(f[4] or nil), sp = f[5],
      full = f[6]} or false
    if pool then
      for queue in string.gmatch(f[2], '%S+') do pool.queues[#pool.queues + 1] = queue end
      for weight in string.gmatch(f[3], '%S+') do pool.weights[#pool.weights + 1] = tonumber(weight) end
      pool.running = call('SCARD', key .. ':run')
    end
    pools[name] = pool
  end
  return pool
end

local function prevention_of(text)
  local rotation, ratio, streak, every, step, most = match(text or '', '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  if not rotation then return {} end
  local aging = tonumber(step) > 0 and {every = tonumber(every), step = tonumber(step), max = tonumber(most)} or nil
  return {rotation = tonumber(rotation), ratio = tonumber(ratio), streak = tonumber(streak), aging = aging}
end

prevention = function(pool)
  if pool and pool.sp and pool.sp ~= '' then return prevention_of(pool.sp ~= 'off' and pool.sp or '') end
  if not default_prevention then
    default_prevention = prevention_of(find(state[7] or '', 's', 1, true) and call('HGET', P .. 'policy', 'sp') or '')
  end
  return default_prevention
end

-- Queues that belong to another pool alone are nobody else's.
is_open_to = function(queue, pool)
  if not find(state[7] or '', 'i', 1, true) then return true end
  local owner = call('HGET', P .. 'policy', 'i ' .. queue)
  return not owner or owner == pool
end

-- Events of pools come at the edge: when all slots are taken and something waits, and not again before a slot was free.
pool_overloaded = function(pool)
  if pool.full == '2' then return end
  local waiting = 0
  for _, queue in ipairs(pool.queues) do waiting = waiting + math.max(queue_depth(queue), 0) end
  local full = waiting > 0 and '2' or '1'
  if pool.full ~= full then call('HSET', pool.key, 'full', full) end
  if waiting == 0 then return end
  emit('scheduling.pool_overloaded', subject(''), '"pool":"' .. pool.name .. '","active_jobs":' .. int(pool.running)
    .. ',"waiting_jobs":' .. int(waiting))
end

-- Whether a worker gave a sign of life in a pool a moment ago.
is_member = function(worker, pool)
  local seen = tonumber(call('ZSCORE', P .. 'pool:' .. pool .. ':workers', worker) or nil)
  return seen and now - seen < math.min(MEMBER_MS, tonumber(ARGV[8]) / 3)
end

-- Notes a worker's sign of life in its pool. Those that were silent for too long are forgotten, or names would pile up.
pool_join = function(worker, pool)
  if is_member(worker, pool) then return end
  local members = P .. 'pool:' .. pool .. ':workers'
  call('ZREMRANGEBYSCORE', members, '-inf', '(' .. int(now - tonumber(ARGV[8])))
  call('ZADD', members, now_text, worker)
  call('SET', P .. 'member:' .. worker, pool, 'PX', ARGV[8])
end

-- The pool that a worker is of: the one it registered with, or named last when it fetched. One that is gone is none.
pool_of = function(worker, told)
  if not find(state[7] or '', 'p', 1, true) then return end
  local own = match(told or '', '^"(.*)"$')
  if own and pool_open(own) then return own end
  own = call('GET', P .. 'member:' .. worker)
  return own and pool_open(own) and own
end

end
