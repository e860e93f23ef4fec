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
  local rule, token, queue, by_webhook = unpack(ctx.args, 9, 12)
  if call('HGET', ctx.prefix .. 'plan:' .. rule .. ':lock', 'token') ~= token then return -1 end
  local levels, changed = staging.levels(staging_open(rule, queue)), 0

  -- Changes a tenant's weight at all priorities at which it waits. Returns true if it changed.
  local function reweigh(name, weight)
    local has_changed = false
    for _, fair in ipairs(levels) do
      local tenant = tenant_of(fair, name)
      if tenant.state then
        if by_webhook == '1' then
          if tenant.state == 'w' then tenant_start(fair, tenant) end
          tenant.asked = ctx.now_text
          tenant_touch(fair, tenant)
        end
        has_changed = tenant_reweigh(fair, tenant, weight, true) or has_changed
      end
    end
    return has_changed
  end

  for at = 13, #ctx.args, 2 do
    local name, weight = unpack(ctx.args, at, at + 1)
    if reweigh(name, tonumber(weight)) then changed = changed + 1 end
  end
  commit()
  return changed
end

return run
