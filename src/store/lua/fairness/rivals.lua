-- Describes the turn of one tenant in a fair queue, and those of the tenants that compete with it,
-- without their names. Read-only.

local fair_queue = require('fairness/fair_queue')

local tenant_of, tenant_start = fair_queue.tenant_of, fair_queue.tenant_start
local call = redis.call

-- Most tenants that are read, which bounds the time of a call.
local MOST_TENANTS = 128

-- Returns, with `jobs_of(name)` counting the jobs of a tenant:
--   clock   number   virtual clock
--   total   number   sum of the weights of all waiting tenants
--   waiting number   waiting tenants
--   state   string?  state of the tenant, as in `busy`
--   weight  number?
--   full    number?  its weight without its throttle, if it has one
--   start   number?  unless it takes no turns
--   rivals  list of {start: number, weight: number, jobs: number}  the other tenants whose turn
--           comes next, spread over all weight classes
local function describe(fair, name, jobs_of)
  local own, classes, rivals = tenant_of(fair, name), fair.classes.names, {}
  local share = math.max(math.floor(MOST_TENANTS / math.max(#classes, 1)), 1)
  for _, class in ipairs(classes) do
    local names = call('ZRANGE', fair.key .. ':c:' .. class, 0, share - 1)
    for _, other in ipairs(names) do
      local tenant = other ~= name and tenant_of(fair, other)
      if tenant and tenant.state == 'w' then
        rivals[#rivals + 1] = {start = tenant_start(fair, tenant), weight = tenant.weight, jobs = jobs_of(other)}
      end
    end
  end
  return {clock = fair.v, total = math.max(fair.w, 0), waiting = math.max(fair.n, 0), state = own.state, weight = own.weight,
    full = own.otherwise, start = own.state == 'w' and tenant_start(fair, own) or nil, rivals = rivals}
end

return {describe = describe}
