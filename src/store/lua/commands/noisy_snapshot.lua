-- Returns the input of the noisy neighbour detector: the most active tenants, a random sample of
-- the others, and totals. One process at a time decides.
--
-- noise       hash    tenant → its state as a noisy neighbour, a document that only Rust reads; for
--                     tenants that are noisy, throttled or exempt
-- noise:lock  string  the process that decides, with a TTL
--
-- Takes
--   holder   string?  this process; nil for a read-only snapshot
--   life     number   TTL of the lock in ms
--   counts   boolean  true if activity is to be counted
--   minutes  number   length of the window
--   busiest  number   most tenants chosen by activity
--   sampled  number   most tenants chosen at random
--   tenants  list of string  further tenants to include
--
-- Returns  `idle` if there are no tenants or their activity is not counted, `held` if another process
--          decides, or {read: …} with
--   now             number
--   span            number  ms since the window began
--   with_jobs       number  tenants with jobs
--   most_of_minute  number  most tenants active in a minute
--   all             figures of all tenants
--   documents       map of tenant to document
--   tenants         list of {name: string, weight: number, figures: figures}
--   sampled         number  tenants at its beginning that were chosen at random
--
-- Figures are {jobs: {pending, available, scheduled, retryable, active}, activity: see
-- `tenants/activity_totals`, runnable: number}. Runnable jobs are those that a free worker could
-- start.

local ctx = require('lib/context')
local packed = require('lib/packed')
local lane = require('queue/lane')
local max_concurrency = require('tenants/quotas').max_concurrency
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
local find, match = string.find, string.match

-- Bounds on the rules, and the main queues of each, that are read for weights, and on the queues
-- that are searched for jobs without a tenant.
local MOST_RULES, QUEUES_PER_RULE, MOST_QUEUES = 16, 4, 1000

-- Returns jobs by state, given an entry of `tenants` or five numbers.
local function jobs_of(text, ...)
  local pending, available, scheduled, retryable, active = ...
  if text then pending, available, scheduled, retryable, active = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$') end
  return {pending = tonumber(pending or 0), available = tonumber(available or 0), scheduled = tonumber(scheduled or 0),
    retryable = tonumber(retryable or 0), active = tonumber(active or 0)}
end

local function total(jobs)
  return jobs.pending + jobs.available + jobs.scheduled + jobs.retryable + jobs.active
end

-- Returns the jobs of the default tenant by state. If they are not counted, which would cost each
-- enqueue, they are computed from the counts of queues.
local function jobs_of_default()
  if find(ctx.tenant_limits, 'd', 1, true) then return jobs_of(call('HGET', ctx.prefix .. 'tenants', '_default')) end
  local queues = call('HLEN', ctx.prefix .. 'queues') <= MOST_QUEUES and call('HKEYS', ctx.prefix .. 'queues') or call('ZRANGE', lane.LIVE, 0, MOST_QUEUES - 1)
  return jobs_of(nil, unpack(default_jobs(queues)))
end

-- Returns an upper bound of a tenant's runnable jobs; 0 if it has as many active jobs as it may
-- have.
local function runnable(name, jobs, blocked)
  local most = max_concurrency(name)
  if most and jobs.active >= most then return 0 end
  return math.max(jobs.pending + jobs.available - (blocked[name] or 0), 0)
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
local function choose(args, documents, first, last)
  local names, known = {}, {['*'] = true}
  local function add(name)
    if not known[name] then
      known[name] = true
      names[#names + 1] = name
    end
  end
  for _, name in ipairs(call('HRANDFIELD', ctx.prefix .. 'tenants', args.sampled)) do add(name) end
  add('_default')
  local sampled_count, most_of_minute = #names, 0
  for minute = last, first, -1 do
    local key = ctx.prefix .. 'busy:m' .. int(minute)
    for _, name in ipairs(call('ZREVRANGE', key, 0, math.max(math.floor(args.busiest / (last - first + 1)), 1) - 1)) do add(name) end
    most_of_minute = math.max(most_of_minute, call('ZCARD', key))
  end
  for name in pairs(documents) do add(name) end
  for _, name in ipairs(args.tenants) do add(name) end
  names[#names + 1] = '*'
  return names, sampled_count, most_of_minute
end

-- Takes or renews the lock. Returns false if another process decides.
local function take_lock(args)
  local held = call('GET', ctx.prefix .. 'noise:lock')
  if held and held ~= args.holder then return false end
  set_counting(args.counts or a_webhook_asks())
  return true
end

-- Returns true if there are tenants whose activity is known in the window.
local function is_active(first, last)
  -- A tenant may have been exempted by an operator although nothing is counted.
  if not ctx.state.throttled and call('EXISTS', ctx.prefix .. 'noise') == 0 then return false end
  local alive = {ctx.prefix .. 'tenants', ctx.prefix .. 'noise'}
  for minute = first, last do alive[#alive + 1] = ctx.prefix .. 'activity:m' .. int(minute) end
  return call('EXISTS', unpack(alive)) > 0
end

local function snapshot(args, first, last)
  local documents, stored = {}, call('HGETALL', ctx.prefix .. 'noise')
  for place = 1, #stored, 2 do documents[stored[place]] = stored[place + 1] end
  local names, sampled, most_of_minute = choose(args, documents, first, last)
  local texts, activity, weight_of = call('HMGET', ctx.prefix .. 'tenants', unpack(names)), activity_totals_of('m', names, first, last), weights(names)
  local default_jobs_now, all, blocked, tenants = jobs_of_default(), jobs_of(texts[#names]), blocked_of(), {}
  for state, jobs in pairs(default_jobs_now) do all[state] = all[state] + jobs end
  for place = 1, #names - 1 do
    local name = names[place]
    local jobs = name == '_default' and default_jobs_now or jobs_of(texts[place])
    tenants[place] = {name = name, weight = weight_of[place] or 1000,
      figures = {jobs = jobs, activity = activity[place], runnable = runnable(name, jobs, blocked)}}
  end
  -- `*` is not a tenant, and the default tenant has a field only while it is counted.
  local with_jobs = math.max(call('HLEN', ctx.prefix .. 'tenants') - 1 - call('HEXISTS', ctx.prefix .. 'tenants', '_default'), 0)
  if total(default_jobs_now) > 0 then with_jobs = with_jobs + 1 end
  return {now = ctx.now, span = ctx.now - first * MINUTE, with_jobs = with_jobs, most_of_minute = most_of_minute,
    all = {jobs = all, activity = activity[#names], runnable = math.max(total_runnable(), 0)}, documents = documents,
    tenants = tenants, sampled = sampled}
end

local function run()
  local args = packed.read()
  local last = math.floor(ctx.now / MINUTE)
  local first = last - args.minutes + 1
  if args.holder and not take_lock(args) then return packed.write('held') end
  if not is_active(first, last) then return packed.write('idle') end
  if args.holder then call('SET', ctx.prefix .. 'noise:lock', args.holder, 'PX', int(args.life)) end
  return packed.write({read = snapshot(args, first, last)})
end

return run
