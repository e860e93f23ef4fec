-- Lanes under limits, and lanes of tenants: which of them wait for which limit. `limits/quota`
-- determines what a limit allows.
--
-- key              type  meaning
-- limit:K          hash  a limit, see below
-- limit:K:run      set   leased jobs that count against its concurrency
-- limit:K:at       hash  `r pP Q`: number of ready lanes of queue Q and priority P; `w Q`:
--                        number of waiting lanes of Q
-- limit:K:tags     hash  tenant → start tag, which orders tenants that wait for the same limit
-- wait:K:Q         zset  lanes of Q that wait for K: by priority, then by tag or first job
-- blocked:Q        hash  tenant → its jobs in lanes that wait
-- parked:Q         hash  lane → the limit that it waits for
-- asleep:Q:T       set   waiting lanes of tenant T
-- awake:Q:T        set   ready lanes of tenant T under limits, if tenants do not take turns
-- limits:stopped   zset  limits of tenants that stopped a job, by time
-- wakes            zset  limits by the time at which lanes that wait for them are examined
-- limits           zset  limits by last use
-- limited          set   queues with a limit of their own
--
-- field of limit:K   meaning
-- j, f, a, o, until  quotas of the last job, the file, an admin and an override, and its end
-- hold               nothing starts before this time
-- b, sums            starts in the window; their number and the number of their buckets
-- next               the throttle's next start
-- later, turn        the same of starts to which jobs were postponed
-- n, w               number of available jobs; number of waiting lanes
-- hit                why the limit's queue is stopped; a tenant's limit: when it last stopped one
-- since              a tenant's limit: when lanes began to wait for it
-- xS                 number of times that part S of the limit began to stop jobs
-- held               when the limit held jobs back (`limits/held_time`)
--
-- Keys of limits that the server owns: `#Q` of a queue, `~Y` of types, `+T:Q` of a tenant's slots
-- in a queue, `!T` of a tenant (`src/store/codec/limits.rs`). For `!T` only waiting lanes are stored
-- here: its quota is in `quotas`, and the jobs that count are in `tenants`.
--
-- A lane that a limit stops is parked: it is not in `ready` and no fetch reads it until the limit
-- has room. For each queue separately, these invariants hold:
--
-- 1. The ready lanes under a limit are at least min(room of the limit, waiting lanes).
-- 2. A lane does not wait if the limit has room for it besides the ready lanes of its priority and
--    above.
--
-- So a free slot is never left unused, a queue without workers cannot consume it, a higher priority
-- never waits for a lower one, and a hundred thousand lanes are not woken for one slot.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local held_time = require('limits/held_time')
local runtime = require('lib/runtime')

local on_begin, count, int, on_commit, per_call = runtime.on_begin, runtime.count, runtime.int, runtime.on_commit, runtime.per_call
local is_tenant_limit, lane_limits, set_queue_live = lane_module.is_tenant_limit, lane_module.limits, lane_module.set_queue_live
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

-- Counts jobs of a queue that wait for a limit. They are excluded when a gate or the queue's depth
-- is computed. They count against their tenant, for which a plan rule promotes no more than it
-- allows.
local function count_blocked(queue, lane, by)
  count(queue, 'blocked', by)
  local tenant = lane_owner(lane)
  if tenant and call('HINCRBY', ctx.prefix .. 'blocked:' .. queue, tenant, int(by)) <= 0 then call('HDEL', ctx.prefix .. 'blocked:' .. queue, tenant) end
end

-- Adds the change of `n` to a limit that `limits/quota` has open; false if it has not.
M.add_to_open = nil
-- Adds a tenant's lane to those that take turns; `fairness/level` sets it.
M.level_enter = nil

-- The name of a tenant's lane, without turns, that has limits of its own. Such names are listed in
-- `awake`, because they cannot be derived from priority and tenant.
local LIMITED_TENANT_LANE = '^[^;]+;[kyo]=.*;b=(.*)$'

-- Changes the number of ready lanes under each limit of a lane.
local function lane_ready(queue, lane, by)
  local field = 'r ' .. lane_level(lane) .. ' ' .. queue
  for _, key in ipairs(lane_limits(queue, lane)) do
    local at = ctx.prefix .. 'limit:' .. key .. ':at'
    if not is_tenant_limit(key) and call('HINCRBY', at, field, int(by)) <= 0 then call('HDEL', at, field) end
  end
end

-- Makes a lane ready whose first job has this score. Limits are not checked before a fetch reads
-- it.
local function lane_enter(queue, lane, score, entry)
  local tenant = lane_tenant(lane)
  local added
  if tenant then
    added = M.level_enter(queue, lane, tenant, score, entry)
  else
    added = call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', score, lane) == 1
    if added then set_queue_live(queue) end
  end
  if not added then return end
  lane_ready(queue, lane, 1)
  local owner = not tenant and match(lane, LIMITED_TENANT_LANE)
  if owner then call('SADD', ctx.prefix .. 'awake:' .. queue .. ':' .. owner, lane) end
end

-- Counts a lane as not ready any more. The caller has removed its entry.
local function lane_left(queue, lane)
  lane_ready(queue, lane, -1)
  local owner = match(lane, LIMITED_TENANT_LANE)
  if owner then call('SREM', ctx.prefix .. 'awake:' .. queue .. ':' .. owner, lane) end
end

local renewed = per_call()

-- Stores the quota of a job as the limit's, because the job that was enqueued last decides. Lanes
-- that wait under another quota are examined.
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

local available_changes = per_call('limit_counts') -- by limit: change of `n` in this call

on_begin(function()
  M.add_to_open = nil
end)

-- Changes the number of available jobs under limits.
local function limits_count(keys, by)
  for place = 1, #keys do
    local key = keys[place]
    if not is_tenant_limit(key) then available_changes()[key] = (available_changes()[key] or 0) + by end
  end
end

on_commit('limit_counts', function()
  for key, by in pairs(available_changes()) do
    local is_done = by == 0 or M.add_to_open and M.add_to_open(key, by)
    if not is_done then call('HINCRBY', ctx.prefix .. 'limit:' .. key, 'n', int(by)) end
  end
end)

-- Returns the limit that a lane waits for, or nil.
local function lane_parked(queue, lane)
  return (tonumber(ctx.state.parked) or 0) ~= 0 and call('HGET', ctx.prefix .. 'parked:' .. queue, lane) or nil
end

-- Handles jobs that were pushed to a lane. The name of a bare lane (`pP;b=T`) contains only
-- priority and tenant. The only limit that can stop it is the tenant's own, for which nothing but
-- waiting lanes is stored.
local function lane_pushed(queue, lane, entry)
  local is_bare = find(lane, '^p%-?%d+;b=')
  local keys = not is_bare and lane_limits(queue, lane)
  if keys and #keys > 0 then
    limits_count(keys, entry.jobs)
    for _, key in ipairs(keys) do
      -- If the limit was removed while idle, the job restores its quota.
      if entry.quota and key == keys[1] and find(lane, ';k=', 1, true) then
        call('HSETNX', ctx.prefix .. 'limit:' .. key, 'j', entry.quota)
      end
      if not is_tenant_limit(key) then call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key) end
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
  if call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', int(entry.lowest), lane) == 1 then set_queue_live(queue) end
end

-- Removes a lane from those that wait: it runs again, or is empty.
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
    held_time.finish(key)
  end
  call('HINCRBY', ctx.prefix .. 'state', 'parked', '-1')
  count_blocked(queue, lane, -jobs)
end

lane_module.on_push = lane_pushed

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
