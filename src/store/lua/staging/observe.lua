-- The state of one main queue of a rule, for rounds and for reports.

local ctx = require('lib/context')
local plan = require('staging/plan')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local int = runtime.int
local queue_health = plan.queue_health
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

-- Returns {queue, staged jobs, waiting tenants, depth, age of the oldest job in ms or '', jobs
-- taken so far, active jobs, ms since workers found it empty or 0, sum of weights, aim, tenants
-- with staged jobs including those that take no turns, tenants of unknown weight}. Weights of all
-- priorities are added up.
local function observe(rule, queue)
  local base, health = staging_open(rule, queue), queue_health(queue)
  local counted = call('HMGET', ctx.prefix .. 'counts:' .. queue, 'taken', 'active')
  local dry = call('HGET', ctx.prefix .. 'low', 'd ' .. queue)
  local waiting, weight, tenants, unknown = 0, 0, -base.repeats, 0
  for _, fair in ipairs(staging.levels(base)) do
    waiting, weight, unknown = waiting + fair.n, weight + fair.w, unknown + fair.u
    tenants = tenants + call('HLEN', fair.key .. ':busy')
  end
  local idle = dry and int(math.max(ctx.now - tonumber(dry), 0)) or '0'
  return {queue, base.jobs, math.min(waiting, tenants), health.depth, health.oldest and int(health.oldest) or '', counted[1] or '0',
    counted[2] or '0', idle, int(weight), int(base.aim), tenants, math.min(unknown, tenants)}
end

return {observe = observe}
