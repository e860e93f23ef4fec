-- Returns the input of the noisy neighbour detector: the most active tenants, a random sample of
-- the others, and totals. One process at a time decides.
--
-- noise       hash    tenant → its state as a noisy neighbour, a document that only Rust reads; for
--                     tenants that are noisy, throttled or exempt
-- noise:lock  string  the process that decides, with a TTL
--
-- ARGV[9…]
--   holder   this process, or '' for a read-only snapshot
--   life     TTL of the lock in ms
--   counts   1 if activity is to be counted
--   minutes  length of the window
--   busiest  most tenants chosen by activity
--   sampled  most tenants chosen at random
--   …        further tenants to include
--
-- Returns  'idle' if there are no tenants or their activity is not counted; 'held' if another
--          process decides; or {now, ms since the window began, number of tenants with jobs, most
--          tenants active in a minute, jobs of all by state, activity of all, {tenant, document,
--          …}, {tenant, jobs by state, weight, activity, runnable jobs, …}, number of tenants at
--          its beginning that were chosen at random, runnable jobs of all}
--
-- Jobs by state are as in `tenants` (`tenants/job_counts`), activity as in `did:mM`
-- (`commands/activity_add`). Runnable jobs are those that a free worker could start.

local ctx = require('lib/context')
local lane = require('queue/lane')
local active_limit = require('tenants/quotas').active_limit
local quotas = require('tenants/quotas')
local headcount = require('tenants/headcount')
local activity_totals = require('tenants/activity_totals')
local runnable_module = require('tenants/runnable')
local runtime = require('lib/runtime')

local int = runtime.int
local tenant_quota, tenants_open = quotas.quota, quotas.tenants_open
local default_jobs = headcount.default_jobs
local MINUTE, activity_totals_of = activity_totals.MINUTE, activity_totals.of
local blocked_of, total_runnable = runnable_module.blocked_of, runnable_module.total_runnable
local call = redis.call
local find, format, match = string.find, string.format, string.match

-- Bounds on the rules, and the main queues of each, that are read for weights, and on the queues
-- that are searched for jobs without a tenant.
local MOST_RULES, QUEUES_PER_RULE, MOST_QUEUES = 16, 4, 1000

local JOBS = '^(%d+) (%d+) (%d+) (%d+) (%d+)$'

-- Returns the jobs of the default tenant by state. If they are not counted, which would cost each
-- enqueue, they are computed from the counts of queues.
local function jobs_of_default()
  if find(ctx.allowed, 'd', 1, true) then return {match(call('HGET', ctx.prefix .. 'tenants', '_default') or '0 0 0 0 0', JOBS)} end
  local queues = call('HLEN', ctx.prefix .. 'queues') <= MOST_QUEUES and call('HKEYS', ctx.prefix .. 'queues') or call('ZRANGE', lane.LIVE, 0, MOST_QUEUES - 1)
  return default_jobs(queues)
end

-- Returns an upper bound of a tenant's runnable jobs; 0 if it has as many active jobs as it may
-- have.
local function runnable(name, jobs, blocked)
  local pending, available, _, _, active = match(jobs, JOBS)
  local cap = pending and active_limit(name)
  if not pending or cap and tonumber(active) >= cap then return 0 end
  return math.max(pending + available - (blocked[name] or 0), 0)
end

-- Returns the highest weight of each tenant anywhere, in thousandths.
local function weights(names)
  local most = {}
  local function raise(key, pattern)
    for place, text in ipairs(call('HMGET', key, unpack(names))) do
      local weight = tonumber(text and match(text, pattern) or nil)
      if weight and weight > (most[place] or 0) then most[place] = weight end
    end
  end
  tenants_open(names)
  for place, name in ipairs(names) do most[place] = tenant_quota(name).weight end
  raise(ctx.prefix .. 'policy:w:*', '^%d+')
  for index, rule in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    if index > MOST_RULES then break end
    raise(ctx.prefix .. 'plan:' .. rule .. ':own', '^%d+')
    for _, queue in ipairs(call('ZRANGE', ctx.prefix .. 'plan:' .. rule .. ':queues', 0, QUEUES_PER_RULE - 1)) do
      local busy = ctx.prefix .. 'fair:' .. rule .. ':' .. queue .. ':busy'
      raise(busy, '^%d+')
      raise(busy, '^%d+ %a %d+ %d+ %d+ (%d+)$') -- the weight without the throttle
    end
  end
  return most
end

-- Returns true if a rule calls a weights webhook, whose requests contain the tenants' activity, and
-- its jobs run here.
local function a_webhook_asks()
  for _, rule in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    local plan = call('HMGET', ctx.prefix .. 'plan:' .. rule, 'tag', 'main')
    if (plan[1] or '') ~= '' and plan[2] == 'builtin' then return true end
  end
  return false
end

-- Starts or stops counting activity. It goes on while tenants are throttled, so that throttles can
-- be lifted.
local function set_counting(is_wanted)
  if is_wanted and not ctx.state.throttled then
    ctx.state.throttled = '0'
    call('HSET', ctx.prefix .. 'state', 'throttled', '0')
  elseif not is_wanted and ctx.state.throttled == '0' then
    ctx.state.throttled = false
    call('HDEL', ctx.prefix .. 'state', 'throttled')
  end
end

-- Returns the names of the tenants to include, with `*` as the last one, the number of those at the
-- beginning that were chosen at random, and the most tenants active in a minute.
local function choose(documents, first, last, busiest, sampled)
  local names, known = {}, {['*'] = true}
  local function add(name)
    if not known[name] then
      known[name] = true
      names[#names + 1] = name
    end
  end
  for _, name in ipairs(call('HRANDFIELD', ctx.prefix .. 'tenants', sampled)) do add(name) end
  add('_default')
  local sampled_count, most_of_minute = #names, 0
  for minute = last, first, -1 do
    local key = ctx.prefix .. 'busy:m' .. int(minute)
    for _, name in ipairs(call('ZREVRANGE', key, 0, math.max(math.floor(busiest / (last - first + 1)), 1) - 1)) do add(name) end
    most_of_minute = math.max(most_of_minute, call('ZCARD', key))
  end
  for position = 1, #documents, 2 do add(documents[position]) end
  for at = 15, #ctx.args do add(ctx.args[at]) end
  names[#names + 1] = '*'
  return names, sampled_count, most_of_minute
end

local function run()
  local holder, life, counts, minutes, busiest, sampled = unpack(ctx.args, 9, 14)
  minutes, busiest, sampled = tonumber(minutes), tonumber(busiest), tonumber(sampled)
  local last = math.floor(ctx.now / MINUTE)
  local first = last - minutes + 1
  local alive = {ctx.prefix .. 'tenants', ctx.prefix .. 'noise'}
  for minute = first, last do alive[#alive + 1] = ctx.prefix .. 'did:m' .. int(minute) end
  if holder ~= '' then
    local held = call('GET', ctx.prefix .. 'noise:lock')
    if held and held ~= holder then return 'held' end
    set_counting(counts == '1' or a_webhook_asks())
  end
  -- A tenant may have been exempted by an operator although nothing is counted.
  local is_known = ctx.state.throttled or call('EXISTS', ctx.prefix .. 'noise') == 1
  if not is_known or call('EXISTS', unpack(alive)) == 0 then return 'idle' end
  if holder ~= '' then call('SET', ctx.prefix .. 'noise:lock', holder, 'PX', life) end

  local documents = call('HGETALL', ctx.prefix .. 'noise')
  local names, sampled_count, most_of_minute = choose(documents, first, last, busiest, sampled)
  local jobs, activity, weight_of, tenants = call('HMGET', ctx.prefix .. 'tenants', unpack(names)), activity_totals_of('m', names, first, last), weights(names), {}
  local default_jobs_now, other_jobs = jobs_of_default(), {match(jobs[#names] or '0 0 0 0 0', JOBS)}
  local all, blocked = {}, blocked_of()
  for place = 1, 5 do all[place] = (other_jobs[place] or 0) + default_jobs_now[place] end
  for place = 1, #names - 1 do
    local at, name = #tenants, names[place]
    local text = name == '_default' and format('%d %d %d %d %d', unpack(default_jobs_now)) or jobs[place] or ''
    tenants[at + 1], tenants[at + 2], tenants[at + 3], tenants[at + 4], tenants[at + 5] =
      name, text, int(weight_of[place] or 1000), activity[place], int(runnable(name, text, blocked))
  end
  -- `*` is not a tenant, and the default tenant has a field only while it is counted.
  local with_jobs = math.max(call('HLEN', ctx.prefix .. 'tenants') - 1 - call('HEXISTS', ctx.prefix .. 'tenants', '_default'), 0)
  for place = 1, 5 do
    if tonumber(default_jobs_now[place]) > 0 then
      with_jobs = with_jobs + 1
      break
    end
  end
  return {ctx.now_text, int(ctx.now - first * MINUTE), with_jobs, most_of_minute, format('%d %d %d %d %d', unpack(all)), activity[#names], documents, tenants,
    sampled_count, int(total_runnable())}
end

return run
