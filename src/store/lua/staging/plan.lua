-- Plan rules as scripts see them, the gate of a main queue, and signals.
--
-- plan:R          hash  what scripts need of rule R (written by `commands/rules`), and its counters
-- plan:R:queues   zset  main queues for which R has jobs staged, by the round that last looked at them
-- low             hash  `m Q`: the planner wants to hear when queue Q holds fewer jobs; `d Q`: since when workers come away
--                       empty-handed although jobs are staged for Q; `n Q`: rules with tenants that wait for Q

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local int, on_commit, memoize, per_call = runtime.int, runtime.on_commit, runtime.memoize, runtime.per_call
local queue_depth = lane_module.queue_depth
local job_load, lower = job_module.load, job_module.lower
local call = redis.call
local match = string.match

-- Main queues that one look takes in: clients choose their names. `QUEUES_A_ROUND` in Rust is the same.
local MOST_QUEUES = 64
-- How long a fair queue without jobs is kept: longer than its aim holds.
local IDLE_MS = 60000

local plans = per_call('plans')

-- What a rule says does not change under one version of the rules, so it is kept for many calls.
local terms_read = memoize(256, function(_, key)
  local f = call('HMGET', key, 'restage', 'latency', 'depth', 'strict', 'jobs', 'every', 'most', 'tag', 'hold', 'default', 'fixed',
    'blocked', 'priority', 'ask')
  return {__index = {key = key, restage = f[1] == '1', latency = tonumber(f[2]), depth = tonumber(f[3]), strict = f[4] == '1',
    jobs = tonumber(f[5]), every = tonumber(f[6]), most = tonumber(f[7]), tag = tonumber(f[8]), hold = f[9] == '1',
    default = tonumber(f[10]) or 1000, fixed = (tonumber(f[11]) or 0) > 0, blocked = tonumber(f[12]) or math.huge,
    within_tenant = f[13] == 'within_tenant', ask = f[14] == '1'}}
end)

-- The rule, or false if there is none of that name.
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

-- Main queues for which a rule has jobs staged; of many, those that no round has looked at for longest.
local function plan_queues(rule)
  return call('ZRANGE', ctx.prefix .. 'plan:' .. rule .. ':queues', 0, MOST_QUEUES - 1)
end

-- How a main queue is: `depth` and `oldest` (the time since when its oldest job waits, or nil) of what can run. Read once.
local healths = per_call()

-- Of the lanes that may run, so many are asked for their first job: of each priority, the oldest is among the first.
local LANES_ASKED = 201

local function queue_oldest(queue)
  local oldest
  local function ask(lane)
    local head = call('ZRANGE', ctx.prefix .. 'lane:' .. queue .. ':' .. lane, 0, 0)[1]
    local job = head and job_load(head)
    oldest = lower(oldest, job and job.enqueued)
  end
  for _, lane in ipairs(call('ZRANGE', ctx.prefix .. 'ready:' .. queue, 0, LANES_ASKED - 1)) do
    local level = match(lane, '^@(.*)$')
    if not level then
      ask(lane)
    else -- tenants that have waited long have the lowest starts
      local key = ctx.prefix .. 'level:' .. queue .. ':' .. level
      for class in string.gmatch(call('HGET', key, 'classes') or '', '%d+') do
        local tenant = call('ZRANGE', key .. ':c:' .. class, 0, 0)[1]
        local first = tenant and call('ZRANGE', key .. ':lanes:' .. tenant, 0, 0)[1]
        if first then ask(first) end
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

-- The rest of an interval's batch; a new interval begins when the old one is over.
local function plan_room(plan)
  if plan.every and ctx.now >= plan.due then plan.room, plan.due = plan.jobs, ctx.now + plan.every end
  return plan.room
end

-- How many jobs may go straight to the main queue, given that nobody waits for it in staging. `aim` is the depth that the
-- planner wants the queue to have.
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

-- Counts a job that went straight to the main queue.
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
