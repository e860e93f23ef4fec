-- Lanes. A queue is made of lanes, and a job waits in exactly one of them.
--
-- lane:Q:L   zset  job ids by score, which orders by priority and then by sequence
-- ready:Q    zset  the lanes of queue Q that may run, by the score of their first job; lanes of tenants that take turns stand
--                  behind one entry for their priority, `@pP`: see `fairness/level`
-- live       zset  queues that have something ready, by since when nobody has taken from them
--
-- A lane's name says what its jobs share: `pP` their priority; `;k=KEY` and `;y=PATTERN` the limits of their key and type;
-- `;o=r` or `;o=d` that they are put off or dropped where a limit stops them; `;s=1` that their tenant has slots of its own;
-- `;t=TENANT` their tenant, where tenants take turns, or `;b=TENANT` where they do not, but are told apart; either is the
-- last. A lane is ready exactly while it holds jobs and nothing blocks it.

local ctx = require('lib/context')
local tenant_capped = require('tenants/quotas').active_limit
local runtime = require('lib/runtime')

local on_begin, flush, gather, int, per_call = runtime.on_begin, runtime.flush, runtime.gather, runtime.int, runtime.per_call
local on_commit, remembering, signal = runtime.on_commit, runtime.remembering, runtime.signal
local call = redis.call
local match = string.match

local M = {}

local LEVEL = 35184372088832 -- 2^45 sequences below each of the 201 priorities: exact in a double, so FIFO always holds
M.LIVE = nil
local find = string.find

local function lane_score(priority, sequence)
  return (100 - priority) * LEVEL + sequence
end

-- Jobs of a queue that may run: those that wait for a limit do not count.
local function queue_depth(queue)
  local counted, changed = call('HMGET', ctx.prefix .. 'counts:' .. queue, 'available', 'blocked'), ctx.counts[queue] or {}
  return (tonumber(counted[1] or nil) or 0) + (changed.available or 0)
    - (tonumber(counted[2] or nil) or 0) - (changed.blocked or 0)
end

-- Paused queues are few; where there is none, none is looked up.
local paused = per_call()

local function is_paused(queue)
  if not ctx.state.paused then return false end
  if paused()[queue] == nil then paused()[queue] = call('HEXISTS', ctx.prefix .. 'paused', queue) == 1 end
  return paused()[queue]
end

-- A queue that had nothing ready has something.
local function queue_woke(queue)
  if call('ZADD', M.LIVE, 'NX', ctx.now_text, queue) == 1 then signal('ready ' .. queue) end
end

local function queue_slept(queue)
  call('ZREM', M.LIVE, queue)
end

local pushed -- lanes that this call pushed to, by queue and name: their key, the lowest score, how many

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
  gather('ZADD', entry.key, score, id)
  return entry
end

-- The lane of a job by what the job itself says, without its tenant.
local function lane_base(lane)
  return match(lane, '^(.-);b=') or lane
end

-- Limits of a tenant are those whose key begins so. They count what the tenant has active, and have no set of their own.
local function is_cap(key)
  return string.byte(key) == 33
end

-- A limit's key as people read it. Keys of clients begin with a letter or a digit, or with `@TENANT/` where they are a tenant's own, and
-- parts of them end in `|scope=name`;
-- `#QUEUE`, `~TYPE` and `+TENANT:QUEUE` are the server's, `!TENANT` is a tenant's cap.
local function limit_label(key)
  local owner, sign, name = match(key, '^(@?[^/]*/?)([#~+])(.*)$')
  if not sign or owner ~= '' and not find(owner, '^@.*/$') then return key end
  if sign == '#' then return owner .. 'queue:' .. name end
  if sign == '~' then return owner .. 'type:' .. name end
  return owner .. 'tenant:' .. string.gsub(name, ':([^:]*)$', ':queue:%1')
end

local known_limits = per_call()

local NONE = {}

-- What a lane's name says of limits; that of one with slots of its own, behind the name of its queue, where it has them. Part of a key,
-- `KEY|scope=name`, is followed by the key itself: what the file or an admin sets for that holds for all parts together. What tenants are
-- allowed may change between calls, and is left out.
local limits_read = remembering(4096, function(lane, queue)
  local tenant = match(lane, ';s=1;t=(.*)$')
  local keys = {match(lane, ';k=([^;]+)')}
  keys[#keys + 1] = keys[1] and match(keys[1], '^([^|]+)|')
  keys[#keys + 1] = match(lane, ';y=([^;]+)')
  if tenant then keys[#keys + 1] = '+' .. tenant .. ':' .. queue end
  return keys
end)

-- Keys of the limits that a lane is under by its name.
local function limits_named(queue, lane)
  if find(lane, ';s=1', 1, true) then return limits_read(queue .. ';' .. lane, queue) end
  return find(lane, ';[ky]=') and limits_read(lane) or NONE
end

-- Keys of the limits that a lane is under. Nobody changes the list.
local function lane_limits(queue, lane)
  if not find(ctx.allowed, 'c', 1, true) then return limits_named(queue, lane) end
  local name = queue .. ';' .. lane
  local keys = known_limits()[name]
  if not keys then
    keys = {unpack(limits_named(queue, lane))}
    local owner = match(lane, ';[bt]=(.*)$')
    if owner and tenant_capped(owner) then keys[#keys + 1] = '!' .. owner end
    known_limits()[name] = keys
  end
  return keys
end

-- Handles pushes to a lane under limits or of a tenant: set by `limits/lanes`, which needs this module itself.
M.arrive = nil

-- Makes pushes visible; lanes that got a new head move in `ready`.
local function lane_flush()
  flush()
  for queue, lanes in pairs(pushed) do
    for lane, entry in pairs(lanes) do
      if find(lane, ';', 1, true) then
        M.arrive(queue, lane, entry)
      elseif call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', int(entry.lowest), lane) == 1 then
        queue_woke(queue)
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
M.is_cap = is_cap
M.is_paused = is_paused
M.base = lane_base
M.flush = lane_flush
M.limits = lane_limits
M.push = lane_push
M.score = lane_score
M.limit_label = limit_label
M.queue_depth = queue_depth
M.queue_slept = queue_slept
M.queue_woke = queue_woke

return M
