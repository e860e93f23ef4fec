-- Lanes under limits, and lanes of tenants. What a limit allows is in `limits/quota`; here is who waits for it.
--
-- limit:K       hash  quotas by who set them: j (the last job), f (the file), a (an admin), o (an override, to `until`); hold
--                     (nothing before that time), b (starts in the window), sums (how many, in how many buckets), next (start after the throttle's last), later and turn
--                     (the same of starts that jobs were put off to), n (available jobs), w (lanes that wait), hit (why its queue is
--                     stopped), xS (times it was hit, by strategy), held (when it held jobs back: see `limits/held_time`); of a tenant's own limit
--                     instead: hit (the last time that it stopped a lane), since (when lanes began to wait for it)
-- limit:K:run   set   leased jobs that count against its concurrency
-- limit:K:at    hash  `r pP Q` ready lanes of queue Q and priority P, `w Q` lanes of Q that wait
-- limit:K:tags  hash  by tenant: its start tag, which orders tenants that wait for the same limit
-- wait:K:Q      zset  lanes of Q that wait for K: highest priority first, then by tag, or by their first job
-- blocked:Q     hash  by tenant: its jobs in lanes that wait
-- parked:Q      hash  lane → the limit that it waits for; asleep:Q:T set of those of tenant T
-- awake:Q:T     set   ready lanes of tenant T under limits, where tenants do not take turns
-- limit:#Q, :~Y, :+T:Q  limits of a queue, of types, and of a tenant's slots in a queue; `src/job/limit_key.rs` has the names
-- limit:!T            a tenant's own limit: only what waits for it is kept here; what it allows is in `quotas`, what counts in `tenants`;
--                     caps: zset of those that stopped somebody, by when
-- wakes         zset  limits by when those who wait for them are to be looked at
-- limits        zset  limits by when they were last used; limited: set of queues that have one of their own
--
-- A lane that a limit blocks is neither in `ready` nor read by anybody until the limit frees. For each queue by itself, the
-- ready lanes under a limit are at least min(what the limit has room for, lanes that wait), and nobody waits for whom there
-- is room beside the ready lanes of its priority and above: so a free slot never waits, a queue that nobody serves cannot
-- swallow it, a higher priority never waits for a lower, and a hundred thousand lanes are not woken for one slot.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local held_time = require('limits/held_time')
local runtime = require('lib/runtime')

local on_begin, count, int, on_commit, per_call = runtime.on_begin, runtime.count, runtime.int, runtime.on_commit, runtime.per_call
local is_cap, lane_limits, queue_woke = lane_module.is_cap, lane_module.limits, lane_module.queue_woke
local held = held_time.held
local call = redis.call
local find, match = string.find, string.match

local M = {}

local function lane_tenant(lane)
  return match(lane, ';t=(.*)$')
end

local function lane_owner(lane)
  return match(lane, ';[bt]=(.*)$')
end

local function lane_level(lane)
  return match(lane, '^p%-?%d+')
end

-- How many jobs of a queue wait for a limit; they neither close a gate nor count as its depth. They count against their
-- tenant, which gets no more of them promoted than its plan rule allows.
local function count_blocked(queue, lane, by)
  count(queue, 'blocked', by)
  local tenant = lane_owner(lane)
  if tenant and call('HINCRBY', ctx.prefix .. 'blocked:' .. queue, tenant, int(by)) <= 0 then call('HDEL', ctx.prefix .. 'blocked:' .. queue, tenant) end
end

M.keeps = nil -- takes over the change of a limit that `quota` has open
M.level_enter = nil -- puts a tenant's lane among those that take turns: see `fairness/level`

-- Whose lane it is that does not take turns, if limits of its own make its name one that nobody could guess.
local VARIED = '^[^;]+;[kyo]=.*;b=(.*)$'

-- One ready lane more or less under each of its limits.
local function lane_ready(queue, lane, by)
  local field = 'r ' .. lane_level(lane) .. ' ' .. queue
  for _, key in ipairs(lane_limits(queue, lane)) do
    local at = ctx.prefix .. 'limit:' .. key .. ':at'
    if not is_cap(key) and call('HINCRBY', at, field, int(by)) <= 0 then call('HDEL', at, field) end
  end
end

-- A lane may run, its first job having a score. Whoever reads it checks its limits.
local function lane_enter(queue, lane, score, entry)
  local tenant = lane_tenant(lane)
  local added
  if tenant then
    added = M.level_enter(queue, lane, tenant, score, entry)
  else
    added = call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', score, lane) == 1
    if added then queue_woke(queue) end
  end
  if not added then return end
  lane_ready(queue, lane, 1)
  local owner = not tenant and match(lane, VARIED)
  if owner then call('SADD', ctx.prefix .. 'awake:' .. queue .. ':' .. owner, lane) end
end

-- The lane is ready no more; its entry is gone already.
local function lane_left(queue, lane)
  lane_ready(queue, lane, -1)
  local owner = match(lane, VARIED)
  if owner then call('SREM', ctx.prefix .. 'awake:' .. queue .. ':' .. owner, lane) end
end

local renewed = per_call()

-- The last enqueued numbers of a key are the key's. Who waits under other ones is looked at.
local function limit_renew(key, quota)
  if renewed()[key] == quota then return end
  renewed()[key] = quota
  local name = ctx.prefix .. 'limit:' .. key
  call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key)
  local was, queue = call('HMGET', name, 'j', 'w'), match(key, '^#(.*)$')
  if was[1] == quota then return end
  call('HSET', name, 'j', quota)
  if queue then call('SADD', ctx.prefix .. 'limited', queue) end
  if queue or (tonumber(was[2] or nil) or 0) > 0 then call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, key) end
  if not ctx.state.limits then
    call('HSET', ctx.prefix .. 'state', 'limits', '1')
    ctx.state.limits = '1'
  end
end

local availables = per_call('limit_counts') -- by limit: how many available jobs more it has than before this call

on_begin(function()
  M.keeps = nil
end)

-- The available jobs under limits change in number.
local function limits_count(keys, by)
  for place = 1, #keys do
    local key = keys[place]
    if not is_cap(key) then availables()[key] = (availables()[key] or 0) + by end
  end
end

on_commit('limit_counts', function()
  for key, by in pairs(availables()) do
    local is_kept = by == 0 or M.keeps and M.keeps(key, by)
    if not is_kept then call('HINCRBY', ctx.prefix .. 'limit:' .. key, 'n', int(by)) end
  end
end)

-- The limit that a lane waits for, if it does.
local function lane_parked(queue, lane)
  return (tonumber(ctx.state.parked) or 0) ~= 0 and call('HGET', ctx.prefix .. 'parked:' .. queue, lane) or nil
end

-- Of a bare lane nothing is said but its priority and whose it is: no limit but its tenant's own can hold it, and of that one only
-- what waits for it is kept.
local function lane_arrive(queue, lane, entry)
  local is_bare = find(lane, '^p%-?%d+;b=')
  local keys = not is_bare and lane_limits(queue, lane)
  if keys and #keys > 0 then
    limits_count(keys, entry.jobs)
    for _, key in ipairs(keys) do
      -- Numbers that went with an idle limit come back with the job that brought them.
      if entry.quota and key == keys[1] and find(lane, ';k=', 1, true) then
        call('HSETNX', ctx.prefix .. 'limit:' .. key, 'j', entry.quota)
      end
      if not is_cap(key) then call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key) end
    end
    if not ctx.state.limits then
      call('HSET', ctx.prefix .. 'state', 'limits', '1')
      ctx.state.limits = '1'
    end
  end
  local key = lane_parked(queue, lane)
  if key then
    if not lane_tenant(lane) then call('ZADD', ctx.prefix .. 'wait:' .. key .. ':' .. queue, 'LT', int(entry.lowest), lane) end
    return count_blocked(queue, lane, entry.jobs)
  end
  if not is_bare then return lane_enter(queue, lane, int(entry.lowest), entry) end
  if call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', int(entry.lowest), lane) == 1 then queue_woke(queue) end
end

-- A parked lane waits no more: it runs again, or is empty.
local function lane_unpark(queue, lane, key, jobs)
  call('HDEL', ctx.prefix .. 'parked:' .. queue, lane)
  local owner = lane_owner(lane)
  if owner then call('SREM', ctx.prefix .. 'asleep:' .. queue .. ':' .. owner, lane) end
  call('ZREM', ctx.prefix .. 'wait:' .. key .. ':' .. queue, lane)
  if call('HINCRBY', ctx.prefix .. 'limit:' .. key .. ':at', 'w ' .. queue, '-1') <= 0 then
    call('HDEL', ctx.prefix .. 'limit:' .. key .. ':at', 'w ' .. queue)
  end
  if call('HINCRBY', ctx.prefix .. 'limit:' .. key, 'w', '-1') <= 0 then
    call('UNLINK', ctx.prefix .. 'limit:' .. key .. ':tags')
    held.finish(key)
  end
  call('HINCRBY', ctx.prefix .. 'state', 'parked', '-1')
  count_blocked(queue, lane, -jobs)
end

lane_module.arrive = lane_arrive

M.count_blocked = count_blocked
M.lane_enter = lane_enter
M.lane_left = lane_left
M.lane_level = lane_level
M.lane_owner = lane_owner
M.lane_parked = lane_parked
M.lane_tenant = lane_tenant
M.lane_unpark = lane_unpark
M.limits_count = limits_count
M.limit_renew = limit_renew

return M
