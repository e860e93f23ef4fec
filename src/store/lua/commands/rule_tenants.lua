-- Lists tenants of a rule and main queue by priority: those whose turn comes next, or the named
-- ones. Read-only.
--
-- Takes
--   rule    string   rule
--   queue   string   main queue
--   most    number   most tenants
--   ages    boolean  true to include the age of the first job
--   others  boolean  true to include as many tenants that take no turns (held, unknown weight or
--           blocked)
--   names   list of string  tenants, or none to list
--
-- Returns
--   now     number
--   levels  list, in serving order, without those beyond the bound, of
--     priority         number
--     clock            number  virtual clock
--     total_weight     number
--     waiting_tenants  number  all of them, also those that are not listed
--     leavers          list of {start: number, weight: number}  weight that leaves then
--     tenants          list of
--       name        string
--       weight      number
--       start       number?   unless it takes no turns
--       promoted    number    jobs since it began to wait
--       since       number    time when it began to wait
--       is_unknown  boolean   true if its weight is unknown
--       asked       number    time of the webhook's last answer about it, or 0
--       staged      number    jobs
--       oldest      number?   time since when its first job waits
--       everywhere  number?   weight of its own settings

local ctx = require('lib/context')
local packed = require('lib/packed')
local quotas = require('tenants/quotas')
local job_module = require('queue/job')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local stage = require('staging/stage')

local tenant_quota = quotas.quota
local job_load = job_module.load
local tenant_of, tenant_start = fair_queue.tenant_of, fair_queue.tenant_start
local staging, staging_open = fair_queues.staging, fair_queues.open
local staging_lane = stage.staging_lane
local call = redis.call

local function run()
  local args = packed.read()
  local most, named = args.most, #args.names > 0 and args.names
  local room, others_room = most, args.others and most or 0 -- numbers of tenants still to list

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
        local lane = staging_lane(fair, name)
        local head = args.ages and call('ZRANGE', lane, 0, 0)[1]
        local job = head and job_load(head)
        tenants[#tenants + 1] = {name = name, weight = tenant.weight, start = tenant.state == 'w' and tenant_start(fair, tenant) or nil,
          promoted = tenant.promoted, since = tonumber(tenant.since), is_unknown = tenant.state == 'u', asked = tonumber(tenant.asked),
          staged = call('ZCARD', lane), everywhere = tenant_quota(name).weight,
          oldest = job and math.max(tonumber(job.created), tonumber(job.due) or 0, tonumber(job.next_retry) or 0) or nil}
      end
    end
    return tenants
  end

  local function leavers_of(fair)
    local leavers = {}
    for _, start in ipairs(call('ZRANGE', fair.key .. ':moments', 0, most - 1)) do
      leavers[#leavers + 1] = {start = tonumber(start), weight = tonumber(call('HGET', fair.key .. ':sums', start) or 0)}
    end
    return leavers
  end

  local levels = {}
  for _, fair in ipairs(staging.levels(staging_open(args.rule, args.queue))) do
    if not named and room <= 0 and others_room <= 0 then break end
    levels[#levels + 1] = {priority = fair.priority, clock = fair.v, total_weight = math.max(fair.w, 0),
      waiting_tenants = math.max(fair.n, 0), leavers = leavers_of(fair), tenants = tenants_of(fair)}
  end
  return packed.write({now = ctx.now, levels = levels})
end

return run
