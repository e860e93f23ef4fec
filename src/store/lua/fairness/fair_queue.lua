-- A fair queue: tenants ordered by virtual time. docs/fairness.md describes the algorithm.
--
-- `src/domain/fairness/queue.rs` implements the same arithmetic; a test requires the same order of both.
-- This module changes a fair queue in memory. `fairness/fair_queue_write` writes it at the end of
-- the call, and `fairness/pick` chooses the next tenant.
--
-- F is the key of a fair queue: `fair:R:Q` or `fair:R:Q:pP` for jobs that rule R has staged for
-- main queue Q (`staging/fair_queues`), or `level:Q:pP` for tenants that take turns in a queue
-- (`fairness/level`).
--
-- F          hash    see below
-- F:c:K      zset    waiting tenants of weight class K, by start
-- F:moments  zset    starts of departed tenants whose weight still counts, see `left`
-- F:sums     hash    start → sum of the weights of those tenants, so that all who leave at one
--                    moment leave in one step
-- F:left     hash    departed tenant → `weight start`; an entry stays until it is swept
-- F:leaving  zset    the same tenants by start
-- F:busy     hash    tenant with jobs → `weight state promoted since asked`, and ` weight` without
--                    its throttle while it is throttled
-- F:held     zset    tenants of weight 0, by the time of the last weights webhook call for them
-- F:unknown  zset    tenants of unknown weight, by the time since when they have jobs
-- F:stuck    set     blocked tenants: too many of their promoted jobs wait for limits
-- F:lane:T   zset    staged jobs of tenant T, by lane score
-- F:tag:T    string  weight that a webhook returned for a tenant that has no jobs staged, with a
--                    TTL
--
-- Fields of F:
--   v, w, n, u       clock, sum of weights, number of waiting tenants, of tenants of unknown weight
--   jobs             number of staged jobs
--   aim, aimed       depth that the planner aims at for the main queue, and until when
--   classes          weight classes with waiting tenants, now or earlier: ` 39 43 `
--   leavers          1 while there may be entries in `moments` or `left`
--   levels, repeats  `staging/fair_queues`
--   s                `fairness/level`
--
-- States in `busy`:
--   w  waiting for its turn
--   h  held: its weight is 0
--   b  blocked: see F:stuck
--   u  unknown weight: a webhook is asked for it before the tenant takes turns
--
-- `promoted` is 0 in levels, which do not count. `asked` is 0, 1 for a remembered weight, or the
-- time of the last webhook call; in levels, 1 for the weight of a plan rule.
--
-- Invariant: when no tenant waits, only entries of tenants in other states remain; the hash expires
-- when it is idle.

local ctx = require('lib/context')
local throttle = require('tenants/throttle')
local runtime = require('lib/runtime')

local int, memoize, per_call = runtime.int, runtime.memoize, runtime.per_call
local throttle_of = throttle.of
local call = redis.call
local format, match = string.format, string.match

local M = {}

local fairs = per_call('fairness') -- by key; phase `fairness` writes them

local LOG2 = math.log(2)
local NOTHING = {}
local MIN_WEIGHT = 50 -- the lowest weight of a tenant that takes turns, in thousandths

-- Remembered between calls: many tenants have the same weight, and most queues have the same
-- classes.
local weights = {
  text = memoize(1024, int),
  -- The addend keeps powers of two in their class if the logarithm is slightly too small.
  class = memoize(1024, function(weight)
    return math.floor(4 * math.log(weight) / LOG2 + 1e-9)
  end),
  -- The classes of a fair queue: their text, their names, and a set of them.
  classes = memoize(256, function(text)
    local classes = {text = text, names = {}, has = {}}
    for name in string.gmatch(text, '%d+') do
      classes.names[#classes.names + 1], classes.has[tonumber(name)] = name, true
    end
    return classes
  end),
}

-- Texts computed in this call: many tenants have the same start, or began to wait at the same
-- moment.
local known_texts, known_busy = per_call(), per_call()

local function precise(number)
  local text = known_texts()[number]
  if not text then
    text = format('%.17g', number)
    known_texts()[number] = text
  end
  return text
end

-- Opens the fair queue at a key, once per call.
--
-- The owner is a table: `counts` is true if promotions of each tenant are counted, `remember(fair,
-- tenant)` is called when a tenant has no more jobs, and `flushed(fair, has_begun, has_ended)` when
-- the queue was written. A queue that `is_new` is not read.
local function fair_open(key, owner, is_new)
  local fair = fairs()[key]
  if not fair then
    local f = is_new and NOTHING or call('HMGET', key, 'v', 'w', 'n', 'jobs', 'aim', 'aimed', 's', 'classes', 'leavers', 'levels', 'repeats', 'u')
    local w, n, jobs, classes, leavers = tonumber(f[2]) or 0, tonumber(f[3]) or 0, tonumber(f[4]) or 0, weights.classes(f[8] or ' '), f[9] or ''
    local levels, repeats, u = f[10] or ' ', tonumber(f[11]) or 0, tonumber(f[12]) or 0
    -- All fields are set at once, also those that are set later: a table that grows is laid out
    -- several times. Fields `had_…` hold what is stored in Redis.
    fair = {key = key, owner = owner, v = tonumber(f[1]) or 0, w = w, n = n, u = u, jobs = jobs,
      aim = (tonumber(f[6]) or 0) > ctx.now and tonumber(f[5]) or 0, sharing = f[7], classes = classes, leavers = leavers, levels = levels, repeats = repeats,
      had_w = w, had_n = n, had_u = u, had_jobs = jobs, had_classes = classes, had_leavers = leavers, had_levels = levels, had_repeats = repeats,
      n_at_open = n, tenants = {}, touched = {}, sums = {}, changed = nil, moved = nil, windows = nil, moments = nil, passed = nil,
      queue = nil, rule = nil, base = nil, priority = nil}
    fairs()[key] = fair
  end
  return fair
end

local function busy_read(busy)
  local weight, state, promoted, since, asked, otherwise = match(busy, '^(%d+) (%a) (%d+) (%d+) (%d+) ?(%d*)$')
  local entry = {weight = tonumber(weight), state = state, promoted = tonumber(promoted), since = since, asked = asked,
    otherwise = tonumber(otherwise)}
  entry.class = state == 'w' and weights.class(entry.weight) or nil
  known_busy()[busy] = entry
  return entry
end

-- Returns a tenant with the given entry of `busy` or none, and its start if that is known. Nine
-- fields at creation make room for the 16 that it may get: a table that grows one by one is laid
-- out each time, and one with 17 fields takes twice the memory.
local function tenant_read(name, busy, start)
  local entry = busy and (known_busy()[busy] or busy_read(busy)) or NOTHING
  local tenant = {name = name, start = start, weight = entry.weight, state = entry.state, was = busy or nil, was_class = entry.class,
    promoted = entry.promoted, since = entry.since, asked = entry.asked}
  if entry.otherwise then tenant.otherwise = entry.otherwise end
  return tenant
end

-- Reads the departure of a tenant that does not wait. Sets `left` if its weight still counts.
local function tenant_left(fair, tenant)
  local weight, start = match(call('HGET', fair.key .. ':left', tenant.name) or '', '^(%d+) (%S+)$')
  if not weight then return end
  tenant.was_left = true
  if call('HEXISTS', fair.key .. ':sums', start) == 1 then
    tenant.left, tenant.start = tonumber(weight), tonumber(start)
  end
end

-- Adds to the weight that leaves at a moment. Also updates the moments that `fairness/pick` has
-- read.
local function moment_add(fair, start, weight)
  local text, moments = precise(start), fair.moments
  fair.sums[text] = (fair.sums[text] or 0) + weight
  if moments then moments.note(moments, start, weight) end
end

-- Returns a tenant; without `state` if it has no jobs, with `left` if it departed and still counts.
local function tenant_of(fair, name)
  local tenant = fair.tenants[name]
  if not tenant then
    tenant = tenant_read(name, call('HGET', fair.key .. ':busy', name))
    if fair.leavers ~= '' and tenant.state ~= 'w' then tenant_left(fair, tenant) end
    fair.tenants[name] = tenant
  end
  return tenant
end

-- Marks a tenant as changed, to be written at the end. Most tenants were served and have more jobs:
-- then only their start has changed (`has_only_moved`), and a cheaper write suffices.
local function tenant_touch(fair, tenant, has_only_moved)
  if not has_only_moved then fair.changed = true end
  if tenant.touched then return end
  tenant.touched = true
  fair.touched[#fair.touched + 1] = tenant
end

local function tenant_start(fair, tenant)
  if not tenant.start then
    tenant.start = tonumber(call('ZSCORE', fair.key .. ':c:' .. tenant.was_class, tenant.name) or nil) or fair.v
  end
  return tenant.start
end

-- Lets a tenant wait with a weight. A tenant that departed and still counts keeps its start; any
-- other starts at the clock.
local function tenant_enter(fair, tenant, weight)
  fair.n = fair.n + 1
  -- The clock has passed the tenant's moment in this call, so it no longer counts.
  if tenant.left and not (fair.passed and tenant.start <= fair.passed) then
    -- If the clock has reached its start but its weight is not removed yet, it gets no credit for
    -- the time since.
    local start = math.max(tenant.start, fair.v)
    moment_add(fair, tenant.start, -tenant.left)
    tenant.start = start
    if tenant.left ~= weight then
      tenant.start = fair.v - (fair.v - start) * tenant.left / weight
      fair.w = fair.w + (weight - tenant.left)
    end
  else
    tenant.start = fair.v
    fair.w = fair.w + weight
  end
  tenant.weight, tenant.state, tenant.left = weight, 'w', nil
end

-- Ends the waiting of a tenant. Its weight counts until the clock reaches its start.
local function tenant_leave(fair, tenant)
  fair.n = fair.n - 1
  if tenant_start(fair, tenant) > fair.v then
    tenant.left = tenant.weight
    moment_add(fair, tenant.start, tenant.weight)
  else
    fair.w = fair.w - tenant.weight
  end
  tenant.state = nil
end

-- Returns the weight with which a tenant waits, which is lower while it is throttled; then the
-- other weight is kept in `otherwise`.
local function tenant_weigh(tenant, weight)
  local part = weight > 0 and throttle_of(tenant.name).part
  tenant.otherwise = part and weight or nil
  return part and math.min(math.max(math.floor(weight * part / 1000 + 0.5), MIN_WEIGHT), weight) or weight
end

-- Changes the weight of a tenant with jobs; its lag stays the same. Returns true if the weight
-- changed. If the weight `is_known` now, a tenant of unknown weight begins to take turns.
local function tenant_reweigh(fair, tenant, weight, is_known)
  if is_known and tenant.state == 'u' then
    fair.u = fair.u - 1
    tenant.weight, tenant.otherwise, tenant.state = 0, nil, 'h'
    tenant_touch(fair, tenant)
  end
  local was, otherwise = tenant.weight, tenant.otherwise
  weight = tenant_weigh(tenant, weight)
  if was == weight and otherwise == tenant.otherwise then return false end
  if tenant.state == 'w' then tenant_start(fair, tenant) end
  tenant_touch(fair, tenant)
  if was == weight then return false end
  fair.moved = true
  if weight == 0 then
    if tenant.state == 'w' then tenant_leave(fair, tenant) end
    tenant.weight, tenant.state = 0, 'h'
  elseif tenant.state == 'h' then
    tenant_enter(fair, tenant, weight)
  elseif tenant.state == 'b' or tenant.state == 'u' then
    tenant.weight = weight
  else
    tenant.start = fair.v - (fair.v - tenant.start) * was / weight
    fair.w, tenant.weight = fair.w + (weight - was), weight
  end
  return true
end

-- Records that a tenant has jobs. The weight applies if it had none. If its weight `is_unknown`, it
-- takes no turns yet.
local function fair_arrive(fair, tenant, weight, is_unknown)
  if tenant.state then return end
  weight = tenant_weigh(tenant, weight)
  tenant.promoted, tenant.since, tenant.asked = 0, ctx.now_text, tenant.remembered or '0'
  if is_unknown then
    tenant.weight, tenant.state, fair.u = weight, 'u', fair.u + 1
  elseif weight > 0 then
    tenant_enter(fair, tenant, weight)
  else
    tenant.weight, tenant.state = 0, 'h'
  end
  tenant_touch(fair, tenant)
end

-- Records that a tenant has no more jobs although it was not served, for example after a
-- cancellation.
local function fair_withdraw(fair, tenant)
  if not tenant.state then return end
  fair.owner.remember(fair, tenant)
  if tenant.state == 'w' then
    tenant_leave(fair, tenant)
  else
    if tenant.state == 'u' then fair.u = fair.u - 1 end
    tenant.state = nil
  end
  tenant_touch(fair, tenant)
end

M.arrive = fair_arrive
M.fairs = fairs
M.open = fair_open
M.withdraw = fair_withdraw
M.precise = precise
M.tenant_enter = tenant_enter
M.tenant_leave = tenant_leave
M.tenant_of = tenant_of
M.tenant_read = tenant_read
M.tenant_reweigh = tenant_reweigh
M.tenant_start = tenant_start
M.tenant_touch = tenant_touch
M.weights = weights

return M
