-- Returns all that is stored about the reasons why a job waits. Read-only.
--
-- Takes
--   id      string  job
--   tenant  string  the only tenant visible to the caller, or '' for all
--
-- Returns  nil if the job does not exist, or
--   now        number
--   state      string
--   queue      string
--   tenant     string
--   rule       string?  plan rule
--   is_staged  boolean
--   leaves     boolean  true if the job goes to a main queue in another system
--   has_left   boolean  true if it was promoted to that main queue
--   created    number
--   enqueued   number?  time at which it last became available
--   due        number?  time at which it is due, or is retried
--   postponed  {strategy: string, since: number, key: string}?  the limit that postponed it
--   throttle   {part: number?, until: number, concurrency: number?}?  throttle of its tenant
--   staged     {of_tenant, before, room, turn}?  its place in staging (`staging/place`)
--   dispatch   {…}?  unless it does not wait, or leaves; see `dispatch_of`

local ctx = require('lib/context')
local packed = require('lib/packed')
local lane_module = require('queue/lane')
local lanes = require('limits/lanes')
local job_module = require('queue/job')
local plan = require('staging/plan')
local staging_place = require('staging/place')
local place = require('dispatch/place')
local obstacles = require('dispatch/obstacles')
local pool_module = require('dispatch/pool')
local rate_buckets = require('limits/rate_buckets')
local runtime = require('lib/runtime')

local int = runtime.int
local queue_depth, limit_label = lane_module.queue_depth, lane_module.limit_label
local lane_parked = lanes.lane_parked
local job_load, marked = job_module.load, job_module.marked
local queue_oldest = plan.queue_oldest
local lane_of, limits_of, next_lane = obstacles.lane_of, obstacles.limits_of, obstacles.next_lane
local paused_since = obstacles.paused_since
local is_open_to, pool_open = pool_module.is_open_to, pool_module.open
local call = redis.call
local find, match = string.find, string.match

-- Bounds: holders that are returned, leases that are examined to find them, pools of a queue, and
-- seconds over which dispatches are counted.
local MOST_HOLDERS, MOST_LEASES, MOST_POOLS, WINDOW = 10, 200, 16, 60

local WAITING = {available = true, pending = true, scheduled = true, retryable = true}

local visible -- the only tenant visible to the caller, or ''

-- Returns id and queue of visible active jobs among `ids` that `holds` accepts.
local function active_jobs(ids, holds)
  local found = {}
  for _, id in ipairs(ids) do
    if #found >= MOST_HOLDERS then break end
    local job = job_load(id, visible)
    if job and job.state == 'active' and holds(job) then found[#found + 1] = {id = id, queue = job.queue} end
  end
  table.sort(found, function(one, other) return one.id < other.id end)
  return found
end

local function any() return true end

-- Returns jobs that hold slots of a limit. Limits of queues and of tenants have no set of jobs.
local function limit_holders(limit)
  local letter, name = string.sub(limit.key, 1, 1), string.sub(limit.key, 2)
  if letter ~= '#' and letter ~= '!' then return active_jobs(call('SRANDMEMBER', limit.run, MOST_HOLDERS), any) end
  local field = letter == '#' and 'queue' or 'tenant'
  local function holds(job) return (job[field] or '_default') == name end
  return active_jobs(call('ZRANGE', job_module.LEASES, 0, MOST_LEASES - 1), holds)
end

local function window_of(limit)
  local starts = {}
  for place_in, bucket in ipairs(rate_buckets.list(limit)) do starts[place_in] = {at = math.floor(bucket.last), jobs = bucket.count} end
  return {limit = limit.quota.rate, period = limit.quota.period, starts = starts}
end

local function limit_shown(state)
  local limit = state.limit
  local quota = limit.quota
  return {key = limit.key, label = limit_label(limit.key), is_blocking = state.is_blocking, strategy = state.strategy, since = state.since,
    room = state.room < math.huge and state.room or nil, running = math.max(limit.running, 0), concurrency = quota.concurrency,
    rate = quota.rate and window_of(limit) or nil,
    throttle = quota.throttle and {limit = quota.throttle, period = quota.spread, next = math.floor(limit.next.ms)} or nil,
    hold_until = limit.hold > ctx.now and math.floor(limit.hold) or nil,
    holders = state.is_blocking and state.strategy == 'concurrency' and limit_holders(limit) or {}}
end

local function pool_shown(name)
  local pool = pool_open(name)
  if not pool then return nil end
  local is_full = pool.most and pool.running >= pool.most
  return {name = name, concurrency = pool.most, running = pool.running,
    workers = call('ZCOUNT', pool.key .. ':workers', int(ctx.now - ctx.settings.dead_after), '+inf'),
    holders = is_full and active_jobs(call('SRANDMEMBER', pool.run, MOST_HOLDERS), any) or {}}
end

-- Returns the pools that serve a queue. Outside of an isolated pool, workers without a pool may
-- serve it as well.
local function pools_of(queue)
  local pools = {}
  if not find(ctx.state.policy, 'p', 1, true) then return pools end
  for name in string.gmatch(call('HGET', ctx.prefix .. 'policy', 'o ' .. queue) or '', '%S+') do
    if #pools < MOST_POOLS and is_open_to(queue, name) then pools[#pools + 1] = pool_shown(name) end
  end
  return pools
end

-- Returns the dispatches of a queue in the last seconds: their number, and the first and the last
-- second in which there were any.
local function dispatches(queue)
  local now, sum = math.floor(ctx.now / 1000), {jobs = 0, first = nil, last = nil}
  local by_minute = {}
  for second = now - WINDOW, now do
    local minute = math.floor(second / 60)
    by_minute[minute] = by_minute[minute] or {}
    table.insert(by_minute[minute], second)
  end
  for minute, seconds in pairs(by_minute) do
    local fields = {}
    for position, second in ipairs(seconds) do fields[position] = queue .. ' ' .. int(second) end
    for position, text in ipairs(call('HMGET', ctx.prefix .. 'pace:' .. int(minute), unpack(fields))) do
      if text then
        local second = seconds[position]
        sum.jobs = sum.jobs + math.floor(tonumber(text) / 2 ^ 40)
        sum.first, sum.last = math.min(sum.first or second, second), math.max(sum.last or second, second)
      end
    end
  end
  return sum
end

-- Returns what decides if a fetch hands the job out:
--   paused_since  number?  time since which its queue is paused
--   depth         number   runnable jobs of its queue
--   active        number   jobs of its queue
--   oldest        number?  time since which the oldest runnable job of its queue waits
--   live_since    number?  time since which the queue has something ready; nil if it has nothing
--   workers       number   workers of all queues with a recent sign of life
--   has_pools     boolean  true if only workers of its pools may serve the queue
--   limits        list of {key, label: string, is_blocking: boolean, strategy: string, since: number?,
--                 room: number?, running: number, concurrency: number?, rate: {limit, period: number,
--                 starts: list of {at, jobs: number}}?, throttle: {limit, period, next: number}?,
--                 hold_until: number?, holders: list of {id, queue: string}}
--   pools         list of {name: string, concurrency: number?, running: number, workers: number,
--                 holders: like those of a limit}
--   dispatched    {jobs: number, first: number?, last: number?}  within the last minute; times in
--                 seconds
--   place         {…}?  place of an available job (`dispatch/place`)
local function dispatch_of(job)
  local queue = job.queue
  local lane = job.state == 'available' and lane_of(job) or nil
  local limits, parked = {}, lane and lane_parked(queue, lane)
  for position, state in ipairs(limits_of(queue, lane or next_lane(job))) do limits[position] = limit_shown(state) end
  return {paused_since = paused_since(queue), depth = math.max(queue_depth(queue), 0), limits = limits, pools = pools_of(queue),
    active = math.max(tonumber(call('HGET', ctx.prefix .. 'counts:' .. queue, 'active') or nil) or 0, 0), oldest = queue_oldest(queue),
    live_since = tonumber(call('ZSCORE', lane_module.LIVE, queue) or nil), has_pools = not is_open_to(queue),
    workers = call('ZCOUNT', ctx.prefix .. 'workers', int(ctx.now - ctx.settings.dead_after), '+inf'),
    dispatched = dispatches(queue), place = lane and place.of(job, lane, parked) or nil}
end

local function throttle_of(tenant)
  if not ctx.state.throttled or ctx.state.throttled == '0' then return nil end
  local part, ends, concurrency = match(call('HGET', ctx.prefix .. 'throttled', tenant) or '', '^(%d+) (%d+) (%S+)$')
  if not part or tonumber(ends) <= ctx.now then return nil end
  return {part = part ~= '1000' and tonumber(part) or nil, ['until'] = tonumber(ends), concurrency = tonumber(concurrency)}
end

local function explain(id)
  local job = job_load(id, visible)
  if not job then return nil end
  local is_staged, tenant = marked(job, 's') and true or false, job.tenant or '_default'
  local strategy_since, strategy, key = match(marked(job, 'l') and job.put_off or '', '^(%d+) (%S+) (.*)$')
  local due = job.state == 'retryable' and job.next_retry or job.state == 'scheduled' and job.due or nil
  local has_left, leaves = job.left and true or false, job.push and true or false
  local waits = WAITING[job.state] and not has_left
  return {now = ctx.now, state = job.state, queue = job.queue, tenant = tenant, rule = job.rule, is_staged = is_staged, leaves = leaves,
    has_left = has_left,
    created = tonumber(job.created), enqueued = tonumber(job.enqueued), due = tonumber(due),
    postponed = key and {strategy = strategy, since = tonumber(strategy_since), key = key} or nil,
    throttle = waits and throttle_of(tenant) or nil, staged = is_staged and staging_place.of(job) or nil,
    dispatch = waits and not leaves and dispatch_of(job) or nil}
end

local function run()
  local args = packed.read()
  visible = args.tenant
  return packed.write(explain(args.id))
end

return run
