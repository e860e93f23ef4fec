-- Changes weights of tenants that wait in staging. Their lag stays the same. Tenants of unknown
-- weight take turns from now on.
--
-- ARGV[9…]
--   rule        rule
--   token       token of the planner lock
--   queue       main queue
--   by_webhook  1 if a webhook returned the weights
--   …           for each tenant: name, weight in thousandths
--
-- Returns  number of tenants whose weight changed, or -1 if the lock is lost

local ctx = require('lib/context')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local commit = runtime.commit
local tenant_of, tenant_reweigh = fair_queue.tenant_of, fair_queue.tenant_reweigh
local tenant_start, tenant_touch = fair_queue.tenant_start, fair_queue.tenant_touch
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

local function run()
  local rule, queue = ctx.args[9], ctx.args[11]
  if call('HGET', ctx.prefix .. 'plan:' .. rule .. ':lock', 'token') ~= ctx.args[10] then return -1 end
  local levels, changed = staging.levels(staging_open(rule, queue)), 0

  -- Changes a tenant's weight at all priorities at which it waits. Returns true if it changed.
  local function reweigh(name, weight)
    local is_other = false
    for _, fair in ipairs(levels) do
      local tenant = tenant_of(fair, name)
      if tenant.state then
        if ctx.args[12] == '1' then
          if tenant.state == 'w' then tenant_start(fair, tenant) end
          tenant.asked = ctx.now_text
          tenant_touch(fair, tenant)
        end
        is_other = tenant_reweigh(fair, tenant, weight, true) or is_other
      end
    end
    return is_other
  end

  for at = 13, #ctx.args, 2 do
    if reweigh(ctx.args[at], tonumber(ctx.args[at + 1])) then changed = changed + 1 end
  end
  commit()
  return changed
end

return run
