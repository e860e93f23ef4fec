-- The state of one main queue of a rule, for rounds and for reports.

local ctx = require('lib/context')
local plan = require('staging/plan')
local fair_queues = require('staging/fair_queues')

local queue_health = plan.queue_health
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

-- Returns a number as a count: whole, and neither negative nor beyond what is exact.
local function count(number)
  return math.min(math.max(math.floor(tonumber(number) or 0), 0), 2 ^ 53)
end

-- Returns, with weights of all priorities added up:
--   queue            string
--   staged           number   jobs
--   waiting_tenants  number
--   depth            number
--   oldest           number?  time since when the oldest job waits
--   taken            number   jobs taken so far
--   active           number   jobs
--   idle_ms          number   ms since workers found it empty, or 0
--   total_weight     number
--   aim              number
--   staged_tenants   number   tenants with staged jobs, including those that take no turns
--   unknown_tenants  number   tenants of unknown weight
local function observe(rule, queue)
  local base, health = staging_open(rule, queue), queue_health(queue)
  local taken, active = unpack(call('HMGET', ctx.prefix .. 'counts:' .. queue, 'taken', 'active'))
  local dry = call('HGET', ctx.prefix .. 'low_water', 'dry ' .. queue)
  local waiting, weight, tenants, unknown = 0, 0, -base.repeats, 0
  for _, fair in ipairs(staging.levels(base)) do
    waiting, weight, unknown = waiting + fair.n, weight + fair.w, unknown + fair.u
    tenants = tenants + call('HLEN', fair.key .. ':busy')
  end
  return {queue = queue, staged = count(base.jobs), waiting_tenants = count(math.min(waiting, tenants)), depth = count(health.depth),
    oldest = health.oldest, taken = count(taken), active = count(active), idle_ms = dry and count(ctx.now - tonumber(dry)) or 0,
    total_weight = count(weight), aim = count(base.aim), staged_tenants = count(tenants), unknown_tenants = count(math.min(unknown, tenants))}
end

return {observe = observe}
