-- Changes weights of tenants that wait in staging. Their lag stays the same. Tenants of unknown
-- weight take turns from now on.
--
-- Takes
--   rule        string   rule
--   token       string   token of the planner lock
--   queue       string   main queue
--   by_webhook  boolean  true if a webhook returned the weights
--   weights     list of {string, number}  tenants and their weights in thousandths
--
-- Returns  number of tenants whose weight changed, or nil if the lock is lost

local ctx = require('lib/context')
local packed = require('lib/packed')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local commit = runtime.commit
local tenant_of, tenant_reweigh = fair_queue.tenant_of, fair_queue.tenant_reweigh
local tenant_start, tenant_touch = fair_queue.tenant_start, fair_queue.tenant_touch
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

local function run()
  local args = packed.read()
  if call('HGET', ctx.prefix .. 'plan:' .. args.rule .. ':lock', 'token') ~= args.token then return packed.write(nil) end
  local levels, changed = staging.levels(staging_open(args.rule, args.queue)), 0

  -- Changes a tenant's weight at all priorities at which it waits. Returns true if it changed.
  local function reweigh(name, weight)
    local has_changed = false
    for _, fair in ipairs(levels) do
      local tenant = tenant_of(fair, name)
      if tenant.state then
        if args.by_webhook then
          if tenant.state == 'w' then tenant_start(fair, tenant) end
          tenant.asked = ctx.now_text
          tenant_touch(fair, tenant)
        end
        has_changed = tenant_reweigh(fair, tenant, weight, true) or has_changed
      end
    end
    return has_changed
  end

  for _, own in ipairs(args.weights) do
    if reweigh(own[1], own[2]) then changed = changed + 1 end
  end
  commit()
  return packed.write(changed)
end

return run
