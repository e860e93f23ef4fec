-- A fair queue: tenants by virtual time. src/fairness/queue.rs does the same sums and has the reasons; a test wants the
-- same order of both, always. Below F, which is `fair:R:Q` for what plan rule R has staged for main queue Q, and `fair:R:Q:pP` for
-- its jobs of priority P: see `staging/fair_queues`.
--
-- F          hash  v (clock), w (sum of weights), n (waiting tenants), u (tenants of unknown weight), jobs (staged), aim, aimed (until when it
--                  holds), classes (those of which somebody waits, or did: ` 39 43 `), leavers (1 while there may be moments, or somebody in `left`),
--                  levels, repeats (see `staging/fair_queues`)
-- F:c:K      zset  waiting tenants of weight class K by start
-- F:moments  zset  starts of tenants that wait no more but count until the clock reaches them; `:sums` their weights by
--                         start, so that all who leave at one moment leave in one step
-- F:left     hash  those tenants: `weight start`; `:leaving` the same by start. Who has left stays until it is swept
-- F:busy     hash  tenants with staged jobs: `weight state promoted since asked`, state w(aiting), h(eld), b(locked) or u(nknown:
--                  a webhook is asked for its weight before it waits for its turn); promoted is 0 where the owner does not count; while a tenant is throttled, also what it weighs otherwise: see `tenants/throttle`
-- F:held     zset  those of weight 0 by when they were last asked about
-- F:unknown  zset  those of unknown weight by since when they have jobs staged
-- F:stuck    set   those that stay in staging because too many of their promoted jobs are blocked
-- F:lane:T   zset  the tenant's staged jobs, by the score of lanes
-- F:tag:T    string the weight that a webhook gave a tenant that has no jobs staged, with a TTL
--
-- Nothing of it outlives the last waiting tenant but the numbers of the held ones; the hash itself expires when it is idle.

local ctx = require('lib/context')
local throttle = require('tenants/throttle')
local runtime = require('lib/runtime')

local int, memoize, per_call = runtime.int, runtime.memoize, runtime.per_call
local throttle_of = throttle.of
local call = redis.call
local format, match = string.format, string.match

local M = {}

local fairs = per_call('fairness') -- by key

local LOG2 = math.log(2)
local NOTHING = {}
local LEAST = 50 -- the smallest weight that is served at all

-- Many tenants share a weight, and most queues have the same classes.
local weights = {
  text = memoize(1024, int),
  -- The small addition keeps powers of two in their class where the logarithm falls short of them.
  class = memoize(1024, function(weight)
    return math.floor(4 * math.log(weight) / LOG2 + 1e-9)
  end),
  -- The classes of a fair queue: their text, their names, and whether it has one.
  classes = memoize(256, function(text)
    local classes = {text = text, names = {}, has = {}}
    for name in string.gmatch(text, '%d+') do
      classes.names[#classes.names + 1], classes.has[tonumber(name)] = name, true
    end
    return classes
  end),
}

-- What this call has worked out before: many tenants share a start, and many began to wait in the same moment.
local known_texts, known_busy = per_call(), per_call()

local function precise(number)
  local text = known_texts()[number]
  if not text then
    text = format('%.17g', number)
    known_texts()[number] = text
  end
  return text
end

-- The fair queue below a key. Its owner `counts` what each tenant got or does not, is asked to `remember` a tenant that has nothing
-- waiting any more, and told when the queue was `flushed`: with whether it came to life or ended. Nothing is read of one that `is_new`.
local function fair_open(key, owner, is_new)
  local fair = fairs()[key]
  if not fair then
    local f = is_new and NOTHING or call('HMGET', key, 'v', 'w', 'n', 'jobs', 'aim', 'aimed', 's', 'classes', 'leavers', 'levels', 'repeats', 'u')
    local w, n, jobs, classes, leavers = tonumber(f[2]) or 0, tonumber(f[3]) or 0, tonumber(f[4]) or 0, weights.classes(f[8] or ' '), f[9] or ''
    local levels, repeats, u = f[10] or ' ', tonumber(f[11]) or 0, tonumber(f[12]) or 0
    -- All fields that it may get, with what they were before this call: see `job_load`.
    fair = {key = key, owner = owner, v = tonumber(f[1]) or 0, w = w, n = n, u = u, jobs = jobs,
      aim = (tonumber(f[6]) or 0) > ctx.now and tonumber(f[5]) or 0, sharing = f[7], classes = classes, leavers = leavers, levels = levels, repeats = repeats,
      had_w = w, had_n = n, had_u = u, had_jobs = jobs, had_classes = classes, had_leavers = leavers, had_levels = levels, had_repeats = repeats,
      read_n = n, tenants = {}, touched = {}, sums = {}, changed = nil, moved = nil, windows = nil, moments = nil, passed = nil,
      queue = nil, rule = nil, base = nil, priority = nil}
    fairs()[key] = fair
  end
  return fair
end

local function busy_read(busy)
  local weight, state, promoted, since, asked, otherwise = match(busy, '^(%d+) (%a) (%d+) (%d+) (%d+) ?(%d*)$')
  local told = {weight = tonumber(weight), state = state, promoted = tonumber(promoted), since = since, asked = asked,
    otherwise = tonumber(otherwise)}
  told.class = state == 'w' and weights.class(told.weight) or nil
  known_busy()[busy] = told
  return told
end

-- A tenant of which `busy` says that, or nothing; with its start, where it is known. A table that begins with nine fields has room
-- for the 16 that it may get: one that grows field by field is laid out anew each time, and one of 17 is twice as large.
local function tenant_read(name, busy, start)
  local told = busy and (known_busy()[busy] or busy_read(busy)) or NOTHING
  local tenant = {name = name, start = start, weight = told.weight, state = told.state, was = busy or nil, was_class = told.class,
    promoted = told.promoted, since = told.since, asked = told.asked}
  if told.otherwise then tenant.otherwise = told.otherwise end
  return tenant
end

-- Whether a tenant that does not wait still counts: its moment has not come.
local function tenant_left(fair, tenant)
  local weight, start = match(call('HGET', fair.key .. ':left', tenant.name) or '', '^(%d+) (%S+)$')
  if not weight then return end
  tenant.was_left = true
  if call('HEXISTS', fair.key .. ':sums', start) == 1 then
    tenant.left, tenant.start = tonumber(weight), tonumber(start)
  end
end

-- Weight that leaves at a moment, or does not after all. Moments that were read are kept true: see `fairness/pick`.
local function moment_add(fair, start, weight)
  local text, moments = precise(start), fair.moments
  fair.sums[text] = (fair.sums[text] or 0) + weight
  if moments then moments.note(moments, start, weight) end
end

-- A tenant as it is; without `state` if it has no jobs staged, with `left` if it still counts as a leaver.
local function tenant_of(fair, name)
  local tenant = fair.tenants[name]
  if not tenant then
    tenant = tenant_read(name, call('HGET', fair.key .. ':busy', name))
    if fair.leavers ~= '' and tenant.state ~= 'w' then tenant_left(fair, tenant) end
    fair.tenants[name] = tenant
  end
  return tenant
end

-- A tenant is to be written. Mostly it was served and has more to give: then nothing of it has changed but its start.
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

-- A tenant begins to wait under a weight: one that left keeps its start, one that is new starts now.
local function tenant_enter(fair, tenant, weight)
  fair.n = fair.n + 1
  -- One whose moment this call has passed counts no more.
  if tenant.left and not (fair.passed and tenant.start <= fair.passed) then
    -- One whose start the clock has reached, but which is not taken off yet, has no claim to the time since.
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

-- A tenant waits no more: it counts until the clock reaches its start, which is at once if it has.
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

-- What a tenant is to wait under, given what it weighs; that is remembered while it is throttled.
local function tenant_weigh(tenant, weight)
  local part = weight > 0 and throttle_of(tenant.name).part
  tenant.otherwise = part and weight or nil
  return part and math.min(math.max(math.floor(weight * part / 1000 + 0.5), LEAST), weight) or weight
end

-- Changes the weight of a tenant that has something waiting; what it lags behind or is ahead stays the same. Whether it changed. If the
-- weight `is_known` from now on, a tenant of unknown weight waits for its turn.
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

-- A tenant has something waiting; the weight counts if it had nothing before. If it `is_unknown`, the tenant has no turn yet.
local function fair_arrive(fair, tenant, weight, is_unknown)
  if tenant.state then return end
  weight = tenant_weigh(tenant, weight)
  tenant.promoted, tenant.since, tenant.asked = 0, ctx.now_text, tenant.told or '0'
  if is_unknown then
    tenant.weight, tenant.state, fair.u = weight, 'u', fair.u + 1
  elseif weight > 0 then
    tenant_enter(fair, tenant, weight)
  else
    tenant.weight, tenant.state = 0, 'h'
  end
  tenant_touch(fair, tenant)
end

-- A tenant has nothing waiting any more, and was not served: that costs it nothing.
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
