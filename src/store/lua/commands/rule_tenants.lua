-- Lists tenants of a rule and main queue by priority: those whose turn comes next, or the named
-- ones. Read-only.
--
-- ARGV[9…]
--   rule, queue  rule and main queue
--   most         most tenants
--   ages         1 to include the age of the first job
--   others       1 to include as many tenants that take no turns (held, unknown weight or blocked)
--   …            names of tenants, or none to list
--
-- Returns  {now, and for each priority in serving order {priority, v, w, number of waiting tenants,
--          {start, weight that leaves then, …}, {tenant, entry of `busy`, start or '', staged jobs,
--          creation time of the first or '', weight of its own settings or '', …}}, …}; priorities
--          beyond the bound are left out

local ctx = require('lib/context')
local quotas = require('tenants/quotas')
local job_module = require('queue/job')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local stage = require('staging/stage')
local runtime = require('lib/runtime')

local int = runtime.int
local tenant_quota = quotas.quota
local job_load = job_module.load
local precise, tenant_of, tenant_start = fair_queue.precise, fair_queue.tenant_of, fair_queue.tenant_start
local staging, staging_open = fair_queues.staging, fair_queues.open
local staging_lane = stage.staging_lane
local call = redis.call

local function run()
  local rule, queue, most, ages, others = unpack(ctx.args, 9, 13)
  most = tonumber(most)
  local named = #ctx.args > 13 and {unpack(ctx.args, 14)}
  local room, others_room = most, others == '1' and most or 0 -- numbers of tenants still to list

  -- Returns the names of tenants whose turn comes next, then of those that take none.
  local function names_of(fair)
    local names, classes = {}, fair.classes.names
    local share = math.max(math.floor(room / math.max(#classes, 1)), 1)
    for _, class in ipairs(room > 0 and classes or {}) do
      for _, name in ipairs(call('ZRANGE', fair.key .. ':c:' .. class, 0, share - 1)) do names[#names + 1] = name end
    end
    room = room - #names
    local function add(idle)
      others_room = others_room - #idle
      for _, name in ipairs(idle) do names[#names + 1] = name end
    end
    if others_room > 0 then add(call('ZRANGE', fair.key .. ':held', 0, others_room - 1)) end
    if others_room > 0 then add(call('ZRANGE', fair.key .. ':unknown', 0, others_room - 1)) end
    if others_room > 0 then add(call('SRANDMEMBER', fair.key .. ':stuck', others_room)) end
    return names
  end

  local function tenants_of(fair)
    local tenants = {}
    for _, name in ipairs(named or names_of(fair)) do
      local tenant = tenant_of(fair, name)
      if tenant.state then
        local lane, created = staging_lane(fair, name), ''
        local head = ages == '1' and call('ZRANGE', lane, 0, 0)[1]
        local job = head and job_load(head)
        if job then created = int(math.max(tonumber(job.created), tonumber(job.due) or 0, tonumber(job.next_retry) or 0)) end
        local at = #tenants
        tenants[at + 1], tenants[at + 2], tenants[at + 3] = name, tenant.was, ''
        if tenant.state == 'w' then tenants[at + 3] = precise(tenant_start(fair, tenant)) end
        tenants[at + 4], tenants[at + 5] = call('ZCARD', lane), created
        tenants[at + 6] = tenant_quota(name).weight and int(tenant_quota(name).weight) or ''
      end
    end
    return tenants
  end

  local function leavers_of(fair)
    local leavers = {}
    for _, start in ipairs(call('ZRANGE', fair.key .. ':moments', 0, most - 1)) do
      leavers[#leavers + 1] = start
      leavers[#leavers + 1] = call('HGET', fair.key .. ':sums', start) or '0'
    end
    return leavers
  end

  local answer = {ctx.now_text}
  for _, fair in ipairs(staging.levels(staging_open(rule, queue))) do
    if not named and room <= 0 and others_room <= 0 then break end
    answer[#answer + 1] = {int(fair.priority), precise(fair.v), int(fair.w), fair.n, leavers_of(fair), tenants_of(fair)}
  end
  return answer
end

return run
