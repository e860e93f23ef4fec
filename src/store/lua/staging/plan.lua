-- Plan rules as scripts need them, the state of main queues, and the gate.
--
-- plan:R         hash  settings of rule R (`commands/rules`) and its counters (docs/storage.md)
-- plan:R:queues  zset  main queues with staged jobs, by the round that last examined them
-- low_water      hash  by main queue Q: see below
--
-- Fields of `low_water`:
--   mark Q         depth below which a planner wants a signal
--   dry Q          time since when workers find Q empty although jobs are staged for it
--   fair_queues Q  number of fair queues, of all rules and priorities, with tenants that wait for Q

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local int, on_commit, memoize, per_call = runtime.int, runtime.on_commit, runtime.memoize, runtime.per_call
local queue_depth = lane_module.queue_depth
local job_load, lower = job_module.load, job_module.lower
local call = redis.call
local match = string.match

-- Main queues examined per round: clients choose their names. `QUEUES_A_ROUND` in Rust has the same
-- value.
local MOST_QUEUES = 64
-- TTL of a fair queue without jobs, longer than its aim applies.
local IDLE_MS = 60000

local plans = per_call('plans')

-- Settings of rules, kept between calls as long as the version of the rules stays the same.
local terms_read = memoize(256, function(_, key)
  local f = call('HMGET', key, 'restage', 'latency', 'depth', 'strict', 'jobs', 'every', 'most', 'tag', 'hold', 'default', 'fixed',
    'blocked', 'priority', 'ask')
  return {__index = {key = key, restage = f[1] == '1', latency = tonumber(f[2]), depth = tonumber(f[3]), strict = f[4] == '1',
    jobs = tonumber(f[5]), every = tonumber(f[6]), most = tonumber(f[7]), tag = tonumber(f[8]), hold = f[9] == '1',
    default = tonumber(f[10]) or 1000, fixed = (tonumber(f[11]) or 0) > 0, blocked = tonumber(f[12]) or math.huge,
    within_tenant = f[13] == 'within_tenant', ask = f[14] == '1'}}
end)

-- Returns a rule, or false if it does not exist.
local function plan_open(rule)
  local plan = plans()[rule]
  if plan == nil then
    local key = ctx.prefix .. 'plan:' .. rule
    local f = call('HMGET', key, 'state', 'paused', 'staged', 'room', 'due')
    plan = f[1] and setmetatable({state = f[1], paused = f[2] == '1', staged = tonumber(f[3]) or 0, room = tonumber(f[4]) or 0,
      due = tonumber(f[5]) or 0, added = 0, spent = nil}, terms_read(ctx.state.rules .. key, key)) or false
    plans()[rule] = plan
  end
  return plan
end

local function plan_flush()
  for _, plan in pairs(plans()) do
    if plan and plan.added ~= 0 then
      call('HINCRBY', plan.key, 'staged', int(plan.added))
      plan.added = 0
    end
    if plan and plan.spent then call('HSET', plan.key, 'room', int(plan.room), 'due', int(plan.due)) end
  end
end
on_commit('plans', plan_flush)

-- Returns main queues with staged jobs; if there are many, those that no round has examined for the
-- longest time.
local function plan_queues(rule)
  return call('ZRANGE', ctx.prefix .. 'plan:' .. rule .. ':queues', 0, MOST_QUEUES - 1)
end

-- By main queue: `depth`, and `oldest`, the time since when its oldest job waits, or nil. Only
-- runnable jobs count.
local healths = per_call()

-- Ready lanes of which the first job is read: one for each priority suffices, because the oldest
-- job of a priority is among the first.
local MOST_LANES = 201

local function queue_oldest(queue)
  local oldest
  local function examine(lane)
    local head = call('ZRANGE', ctx.prefix .. 'lane:' .. queue .. ':' .. lane, 0, 0)[1]
    local job = head and job_load(head)
    oldest = lower(oldest, job and job.enqueued)
  end
  for _, lane in ipairs(call('ZRANGE', ctx.prefix .. 'ready:' .. queue, 0, MOST_LANES - 1)) do
    local level = match(lane, '^@(.*)$')
    if not level then
      examine(lane)
    else -- tenants that have waited longest have the lowest starts
      local key = ctx.prefix .. 'level:' .. queue .. ':' .. level
      for class in string.gmatch(call('HGET', key, 'classes') or '', '%d+') do
        local tenant = call('ZRANGE', key .. ':c:' .. class, 0, 0)[1]
        local first = tenant and call('ZRANGE', key .. ':lanes:' .. tenant, 0, 0)[1]
        if first then examine(first) end
      end
    end
  end
  return oldest
end

local function queue_health(queue)
  local health = healths()[queue]
  if not health then
    health = {depth = queue_depth(queue), oldest = queue_oldest(queue)}
    healths()[queue] = health
  end
  return health
end

-- Returns the rest of an interval's batch. Starts a new interval if the old one is over.
local function plan_room(plan)
  if plan.every and ctx.now >= plan.due then plan.room, plan.due = plan.jobs, ctx.now + plan.every end
  return plan.room
end

-- Returns how many jobs may pass straight to the main queue, if no tenant waits for it. `aim` is
-- the depth that the planner aims at.
local function gate_room(plan, queue, aim)
  local health = queue_health(queue)
  if plan.paused or (health.oldest and ctx.now - health.oldest > plan.latency) then return 0 end
  local room
  if plan.jobs == 0 then
    room = plan.strict and plan.room or math.max(aim, 1) - health.depth
  else
    room = plan_room(plan)
    if not plan.strict and health.depth == 0 then room = math.max(room, 1) end
  end
  return math.min(room, plan.depth - health.depth)
end

-- Counts a job that passed through.
local function gate_passed(plan, queue)
  local health = queue_health(queue)
  health.depth = health.depth + 1
  if plan.room > 0 then plan.room, plan.spent = plan.room - 1, true end
end

return {
  IDLE_MS = IDLE_MS,
  gate_passed = gate_passed,
  gate_room = gate_room,
  open = plan_open,
  queues = plan_queues,
  queue_health = queue_health,
  queue_oldest = queue_oldest,
}
