-- Lanes of queues. A queue consists of lanes, and each waiting job is in exactly one of them.
--
-- key       type  meaning
-- lane:Q:L  zset  job ids by score, which orders by priority, then by sequence
-- ready:Q   zset  lanes of queue Q that may run, by the score of their first job; one entry `@pP`
--                 represents all lanes of priority P whose tenants take turns (`fairness/level`)
-- live      zset  queues with ready lanes, by the time since which no job was taken from them
--
-- The name of a lane says what its jobs have in common:
-- pP                     priority P
-- ;k=KEY, ;y=PATTERN     the limits of their key and of their type
-- ;o=r, ;o=d             a limit that stops them postpones them (r) or drops them (d)
-- ;s=1                   their tenant has slots of its own in the queue
-- ;t=TENANT              their tenant, if tenants take turns; always last
-- ;b=TENANT              their tenant, if tenants are told apart but take no turns; always last
--
-- A lane is ready exactly while it has jobs and no limit stops it. Ready lanes are in `ready:Q`, or
-- in the level of their tenant.

local ctx = require('lib/context')
local max_concurrency = require('tenants/quotas').max_concurrency
local runtime = require('lib/runtime')

local on_begin, flush, gather, int, per_call = runtime.on_begin, runtime.flush, runtime.gather, runtime.int, runtime.per_call
local apply_earlier, on_commit, memoize, signal = runtime.apply_earlier, runtime.on_commit, runtime.memoize, runtime.signal
local call = redis.call
local match = string.match

local M = {}

-- 2^45 sequences below each of the 201 priorities. Scores are exact in a double, so FIFO always
-- holds.
local LEVEL = 35184372088832
M.LIVE = nil
local find = string.find

local function lane_score(priority, sequence)
  return (100 - priority) * LEVEL + sequence
end

-- Returns the number of jobs of a queue that may run. Jobs that wait for a limit do not count.
local function queue_depth(queue)
  apply_earlier()
  local counted, changed = call('HMGET', ctx.prefix .. 'counts:' .. queue, 'available', 'blocked'), ctx.counts[queue] or {}
  return (tonumber(counted[1] or nil) or 0) + (changed.available or 0)
    - (tonumber(counted[2] or nil) or 0) - (changed.blocked or 0)
end

-- Few queues are paused. If none is, none is looked up.
local paused = per_call()

local function is_paused(queue)
  if not ctx.state.paused then return false end
  if paused()[queue] == nil then paused()[queue] = call('HEXISTS', ctx.prefix .. 'paused', queue) == 1 end
  return paused()[queue]
end

-- Marks a queue as having ready lanes, and signals if it had none before.
local function set_queue_live(queue)
  if call('ZADD', M.LIVE, 'NX', ctx.now_text, queue) == 1 then signal('ready ' .. queue) end
end

local function clear_queue_live(queue)
  call('ZREM', M.LIVE, queue)
end

-- Lanes that this call pushed to, by queue and name: key, lowest score, number of jobs.
local pushed

local function lane_push(queue, lane, id, score)
  local of_queue = pushed[queue]
  if not of_queue then
    of_queue = {}
    pushed[queue] = of_queue
  end
  local entry = of_queue[lane]
  if not entry then
    entry = {key = ctx.prefix .. 'lane:' .. queue .. ':' .. lane, lowest = score, jobs = 1}
    of_queue[lane] = entry
  else
    entry.jobs = entry.jobs + 1
    if score < entry.lowest then entry.lowest = score end
  end
  gather('ZADD', entry.key, int(score), id)
  return entry
end

-- Returns the name of a job's lane as the job itself determines it, without the tenant.
local function lane_base(lane)
  return match(lane, '^(.-);b=') or lane
end

-- Returns true for the key of a tenant's own limit (`!TENANT`). Such limits count the tenant's
-- active jobs and have no set of running jobs.
local function is_tenant_limit(key)
  return string.byte(key) == 33
end

-- Returns the key of a limit as people read it. Keys of clients begin with a letter or a digit, or
-- with `@TENANT/` if a tenant owns them, and partitions of a key end in `|scope=name`. The server
-- owns the keys `#QUEUE`, `~TYPE`, `+TENANT:QUEUE` and `!TENANT` (`src/store/codec/limits.rs`).
local function limit_label(key)
  local owner, sign, name = match(key, '^(@?[^/]*/?)([#~+])(.*)$')
  if not sign or owner ~= '' and not find(owner, '^@.*/$') then return key end
  if sign == '#' then return owner .. 'queue:' .. name end
  if sign == '~' then return owner .. 'type:' .. name end
  return owner .. 'tenant:' .. string.gsub(name, ':([^:]*)$', ':queue:%1')
end

local known_limits = per_call()

local NONE = {}

-- Returns the keys of the limits in a lane's name. A partition `KEY|scope=name` is followed by KEY,
-- whose own quota applies to all partitions together. For a lane with slots of its own, the cache
-- key and thus `lane` begin with the queue. Limits of tenants can change between calls, so they are
-- not part of the cached value.
local limits_read = memoize(4096, function(lane, queue)
  local tenant = match(lane, ';s=1;t=(.*)$')
  local keys = {match(lane, ';k=([^;]+)')}
  keys[#keys + 1] = keys[1] and match(keys[1], '^([^|]+)|')
  keys[#keys + 1] = match(lane, ';y=([^;]+)')
  if tenant then keys[#keys + 1] = '+' .. tenant .. ':' .. queue end
  return keys
end)

-- Returns the keys of the limits in a lane's name.
local function limits_named(queue, lane)
  if find(lane, ';s=1', 1, true) then return limits_read(queue .. ';' .. lane, queue) end
  return find(lane, ';[ky]=') and limits_read(lane) or NONE
end

-- Returns the keys of all limits of a lane. Callers must not change the list.
local function lane_limits(queue, lane)
  if not find(ctx.tenant_limits, 'c', 1, true) then return limits_named(queue, lane) end
  local name = queue .. ';' .. lane
  local keys = known_limits()[name]
  if not keys then
    keys = {unpack(limits_named(queue, lane))}
    local owner = match(lane, ';[bt]=(.*)$')
    if owner and max_concurrency(owner) then keys[#keys + 1] = '!' .. owner end
    known_limits()[name] = keys
  end
  return keys
end

-- Handles pushes to a lane with limits or with a tenant. `limits/lanes` sets it, because that
-- module requires this one.
M.on_push = nil

-- Makes pushed jobs visible. Lanes with a new first job move in `ready`.
local function lane_flush()
  flush()
  for queue, lanes in pairs(pushed) do
    for lane, entry in pairs(lanes) do
      if find(lane, ';', 1, true) then
        M.on_push(queue, lane, entry)
      elseif call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', int(entry.lowest), lane) == 1 then
        set_queue_live(queue)
      end
    end
  end
  pushed = {}
end
on_commit('lanes', lane_flush)

on_begin(function()
  M.LIVE, pushed = ctx.prefix .. 'live', {}
end)

M.LEVEL = LEVEL
M.is_tenant_limit = is_tenant_limit
M.is_paused = is_paused
M.base = lane_base
M.flush = lane_flush
M.limits = lane_limits
M.push = lane_push
M.score = lane_score
M.limit_label = limit_label
M.queue_depth = queue_depth
M.clear_queue_live = clear_queue_live
M.set_queue_live = set_queue_live

return M
