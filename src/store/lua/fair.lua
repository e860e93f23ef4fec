-- Part: a fair queue: tenants by virtual time. src/fair/queue.rs does the same sums and has the reasons; a test wants the
-- same order of both, always. Below F, which is `fair:R:Q` for what plan rule R has staged for main queue Q:
--
-- F          hash  v (clock), w (sum of weights), n (waiting tenants), jobs (staged), aim, aimed (until when it holds), classes
--                  (those of which somebody waits, or did: ` 39 43 `), leavers (1 while there may be moments, or somebody in `left`)
-- F:c:K      zset  waiting tenants of weight class K by start
-- F:moments  zset  starts of tenants that wait no more but count until the clock reaches them; `:sums` their weights by
--                         start, so that all who leave at one moment leave in one step
-- F:left     hash  those tenants: `weight start`; `:leaving` the same by start. Who has left stays until it is swept
-- F:busy     hash  tenants with staged jobs: `weight state promoted since asked`, state w(aiting), h(eld) or b(locked); while a tenant
--                  is throttled, also what it weighs otherwise: see `throttle.lua`
-- F:held     zset  those of weight 0 by when they were last asked about
-- F:stuck    set   those that stay in staging because too many of their promoted jobs are blocked
-- F:lane:T   zset  the tenant's staged jobs, by the score of lanes
-- F:tag:T    string the weight that a webhook gave a tenant that has no jobs staged, with a TTL
--
-- Nothing of it outlives the last waiting tenant but the numbers of the held ones; the hash itself expires when it is idle.

local weight_text, precise, classes_of, fair_open, tenant_read, tenant_of, tenant_touch, tenant_start, tenant_enter,
  tenant_leave, fair_arrive, fair_withdraw, tenant_reweigh, send, fair_write, fair_flush

do -- a script has room for 200 locals

local LOG2 = math.log(2)
local LEAST = 50 -- the smallest weight that is served at all
local fairs

-- What this call has worked out before: many tenants share a weight, many a start, and many began to wait in the same moment.
local known_classes, known_weights, known_texts, known_busy

at_begin(function()
  fairs, known_classes, known_weights, known_texts, known_busy = {}, {}, {}, {}, {}
end)

weight_text = function(weight)
  local text = known_weights[weight]
  if not text then
    text = int(weight)
    known_weights[weight] = text
  end
  return text
end

-- The small addition keeps powers of two in their class where the logarithm falls short of them.
local function weight_class(weight)
  local class = known_classes[weight]
  if not class then
    class = math.floor(4 * math.log(weight) / LOG2 + 1e-9)
    known_classes[weight] = class
  end
  return class
end

precise = function(number)
  local text = known_texts[number]
  if not text then
    text = format('%.17g', number)
    known_texts[number] = text
  end
  return text
end

-- The weight classes of a fair queue: their text, their names, and whether it has one. Most queues have the same.
classes_of = remembering(256, function(text)
  local classes = {text = text, names = {}, has = {}}
  for name in string.gmatch(text, '%d+') do
    classes.names[#classes.names + 1], classes.has[tonumber(name)] = name, true
  end
  return classes
end)

-- The fair queue below a key. Its owner `counts` what each tenant got or does not, is asked to `remember` a tenant that has nothing
-- waiting any more, and told when the queue was `flushed`: with whether it came to life or ended.
fair_open = function(key, owner)
  local fair = fairs[key]
  if not fair then
    local f = call('HMGET', key, 'v', 'w', 'n', 'jobs', 'aim', 'aimed', 's', 'classes', 'leavers')
    local w, n, jobs, classes, leavers = tonumber(f[2]) or 0, tonumber(f[3]) or 0, tonumber(f[4]) or 0, classes_of(f[8] or ' '), f[9] or ''
    -- All fields that it may get, with what they were before this call: see `job_load`.
    fair = {key = key, owner = owner, v = tonumber(f[1]) or 0, w = w, n = n, jobs = jobs,
      aim = (tonumber(f[6]) or 0) > now and tonumber(f[5]) or 0, sharing = f[7], classes = classes, leavers = leavers,
      had_w = w, had_n = n, had_jobs = jobs, had_classes = classes, had_leavers = leavers, tenants = {}, touched = {}, sums = {},
      changed = nil, moved = nil, windows = nil, moments = nil, passed = nil, queue = nil}
    fairs[key] = fair
  end
  return fair
end

local function busy_read(busy)
  local weight, state, promoted, since, asked, otherwise = match(busy, '^(%d+) (%a) (%d+) (%d+) (%d+) ?(%d*)$')
  local told = {weight = tonumber(weight), state = state, promoted = tonumber(promoted), since = since, asked = asked,
    otherwise = tonumber(otherwise)}
  told.class = state == 'w' and weight_class(told.weight) or nil
  known_busy[busy] = told
  return told
end

local NOTHING = {}

-- A tenant of which `busy` says that, or nothing; with its start, where it is known. A table that begins with nine fields has room
-- for the 16 that it may get: one that grows field by field is laid out anew each time, and one of 17 is twice as large.
tenant_read = function(name, busy, start)
  local told = busy and (known_busy[busy] or busy_read(busy)) or NOTHING
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

-- Weight that leaves at a moment, or does not after all. Moments that were read are kept true: see `pick.lua`.
local function moment_add(fair, start, weight)
  local text, moments = precise(start), fair.moments
  fair.sums[text] = (fair.sums[text] or 0) + weight
  if moments then moments.note(moments, start, weight) end
end

-- A tenant as it is; without `state` if it has no jobs staged, with `left` if it still counts as a leaver.
tenant_of = function(fair, name)
  local tenant = fair.tenants[name]
  if not tenant then
    tenant = tenant_read(name, call('HGET', fair.key .. ':busy', name))
    if fair.leavers ~= '' and tenant.state ~= 'w' then tenant_left(fair, tenant) end
    fair.tenants[name] = tenant
  end
  return tenant
end

-- A tenant is to be written. Mostly it was served and has more to give: then nothing of it has changed but its start.
tenant_touch = function(fair, tenant, has_only_moved)
  if not has_only_moved then fair.changed = true end
  if tenant.touched then return end
  tenant.touched = true
  fair.touched[#fair.touched + 1] = tenant
end

tenant_start = function(fair, tenant)
  if not tenant.start then
    tenant.start = tonumber(call('ZSCORE', fair.key .. ':c:' .. tenant.was_class, tenant.name) or nil) or fair.v
  end
  return tenant.start
end

-- A tenant begins to wait under a weight: one that left keeps its start, one that is new starts now.
tenant_enter = function(fair, tenant, weight)
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
tenant_leave = function(fair, tenant)
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

-- Changes the weight of a tenant that has something waiting; what it lags behind or is ahead stays the same. Whether it changed.
tenant_reweigh = function(fair, tenant, weight)
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
  elseif tenant.state == 'b' then
    tenant.weight = weight
  else
    tenant.start = fair.v - (fair.v - tenant.start) * was / weight
    fair.w, tenant.weight = fair.w + (weight - was), weight
  end
  return true
end

-- A tenant has something waiting; the weight counts if it had nothing before.
fair_arrive = function(fair, tenant, weight)
  if tenant.state then return end
  weight = tenant_weigh(tenant, weight)
  tenant.promoted, tenant.since, tenant.asked = 0, now_text, tenant.told and '1' or '0'
  if weight > 0 then
    tenant_enter(fair, tenant, weight)
  else
    tenant.weight, tenant.state = 0, 'h'
  end
  tenant_touch(fair, tenant)
end

-- A tenant has nothing waiting any more, and was not served: that costs it nothing.
fair_withdraw = function(fair, tenant)
  if not tenant.state then return end
  fair.owner.remember(fair, tenant)
  if tenant.state == 'w' then
    tenant_leave(fair, tenant)
  else
    tenant.state = nil
  end
  tenant_touch(fair, tenant)
end

-- Lists by weight class, made when they are first needed.
local function of_class(lists, class)
  local list = lists[class]
  if not list then
    list = {}
    lists[class] = list
  end
  return list
end

send = function(command, key, list)
  for first = 1, #list, 4000 do call(command, key, unpack(list, first, math.min(first + 3999, #list))) end
end

local function pair(list, first, second)
  local size = #list
  list[size + 1], list[size + 2] = first, second
end

-- What `busy` says of tenants. Those who move in one call mostly stand alike, and then so does the text.
local function busy_text(tenant, like, text)
  if like and like.promoted == tenant.promoted and like.since == tenant.since and like.asked == tenant.asked
    and like.weight == tenant.weight and like.state == tenant.state and like.otherwise == tenant.otherwise then
    return text
  end
  return weight_text(tenant.weight) .. ' ' .. tenant.state .. ' ' .. int(tenant.promoted) .. ' ' .. tenant.since .. ' '
    .. tenant.asked .. (tenant.otherwise and ' ' .. weight_text(tenant.otherwise) or '')
end

-- Writes tenants that have only moved.
local function starts_write(fair)
  local touched, placed = fair.touched, {}
  for position = 1, #touched do
    local tenant = touched[position]
    pair(of_class(placed, tenant.was_class), precise(tenant.start), tenant.name)
    tenant.touched = nil
  end
  for class, list in pairs(placed) do send('ZADD', fair.key .. ':c:' .. class, list) end
end

-- Writes all that may have changed of tenants. Where the queue has ended, its classes are gone.
local function tenants_write(fair, has_ended)
  local touched, key, gone, placed = fair.touched, fair.key, {}, {}
  local busy, idle, left, stayed, leaving, held, freed = {}, {}, {}, {}, {}, {}, {}
  local like, now_busy
  for position = 1, #touched do
    local tenant = touched[position]
    local name, state, was, was_class = tenant.name, tenant.state, tenant.was, tenant.was_class
    local class = state == 'w' and weight_class(tenant.weight) or nil
    if was_class and was_class ~= class and not has_ended then
      local list = of_class(gone, was_class)
      list[#list + 1] = name
    end
    if class then pair(of_class(placed, class), precise(tenant.start), name) end
    if tenant.left then
      local start = precise(tenant.start)
      pair(leaving, start, name)
      pair(left, name, weight_text(tenant.left) .. ' ' .. start)
    elseif tenant.was_left then
      stayed[#stayed + 1] = name
    end
    if state == 'h' then
      pair(held, tenant.asked, name)
    elseif was and not was_class then
      freed[#freed + 1] = name
    end
    if state then
      like, now_busy = tenant, busy_text(tenant, like, now_busy)
      if now_busy ~= was then pair(busy, name, now_busy) end
      tenant.was = now_busy
    elseif was then
      idle[#idle + 1] = name
      tenant.was = nil
    end
    tenant.was_class, tenant.was_left, tenant.touched = class, tenant.left and true, nil
  end
  for class, list in pairs(gone) do send('ZREM', key .. ':c:' .. class, list) end
  for class, list in pairs(placed) do send('ZADD', key .. ':c:' .. class, list) end
  send('ZREM', key .. ':leaving', stayed)
  send('ZADD', key .. ':leaving', leaving)
  send('HDEL', key .. ':left', stayed)
  send('HSET', key .. ':left', left)
  send('ZREM', key .. ':held', freed)
  send('ZADD', key .. ':held', held)
  send('HDEL', key .. ':busy', idle)
  send('HSET', key .. ':busy', busy)
  for start, weight in pairs(fair.sums) do
    if weight ~= 0 then
      local sum = call('HINCRBY', key .. ':sums', start, int(weight))
      if sum == weight then
        call('ZADD', key .. ':moments', start, start)
      elseif sum <= 0 then
        call('HDEL', key .. ':sums', start)
        call('ZREM', key .. ':moments', start)
      end
    end
  end
  if #left > 0 or next(fair.sums) then fair.leavers = '1' end
  fair.sums = {}
  for class in pairs(placed) do
    if not fair.classes.has[class] then fair.classes = classes_of(fair.classes.text .. class .. ' ') end
  end
end

-- Writes where tenants are now; each set is written once, however many of them moved.
fair_write = function(fair, has_ended)
  if fair.changed or next(fair.sums) then
    tenants_write(fair, has_ended)
  elseif #fair.touched > 0 then
    starts_write(fair)
  else
    return
  end
  fair.touched, fair.changed = {}, nil
end

-- When nobody waits, the clock and those who left are nobody's business any more. What was not written of them yet never is.
local function fair_end(fair)
  local key, names = fair.key, fair.classes.names
  for place = 1, #names do call('UNLINK', key .. ':c:' .. names[place]) end
  if fair.leavers ~= '' then call('UNLINK', key .. ':leaving', key .. ':left', key .. ':moments', key .. ':sums') end
  for _, tenant in pairs(fair.tenants) do tenant.left, tenant.was_left = nil, nil end
  fair.v, fair.w, fair.sums, fair.moments, fair.passed, fair.classes, fair.leavers = 0, 0, {}, nil, nil, classes_of(' '), ''
end

fair_flush = function()
  for _, fair in pairs(fairs) do
    local has_begun, has_ended = fair.n > 0 and fair.had_n == 0, fair.n == 0 and fair.had_n > 0
    if has_ended then fair_end(fair) end
    fair_write(fair, has_ended)
    local is_other = fair.n ~= fair.had_n or fair.w ~= fair.had_w or fair.jobs ~= fair.had_jobs
    if is_other then
      call('HSET', fair.key, 'v', precise(fair.v), 'w', int(fair.w), 'n', int(fair.n), 'jobs', int(fair.jobs),
        'classes', fair.classes.text, 'leavers', fair.leavers)
    elseif fair.moved then
      call('HSET', fair.key, 'v', precise(fair.v))
    end
    -- The clock stays out of this: a look at who might go moves it, and is not to count.
    if not is_other and (fair.classes ~= fair.had_classes or fair.leavers ~= fair.had_leavers) then
      call('HSET', fair.key, 'classes', fair.classes.text, 'leavers', fair.leavers)
    end
    fair.owner.flushed(fair, has_begun, has_ended)
    fair.had_n, fair.had_w, fair.had_jobs, fair.moved = fair.n, fair.w, fair.jobs, nil
    fair.had_classes, fair.had_leavers = fair.classes, fair.leavers
  end
end
-- After the lanes, which bring tenants, and before what counts them.
table.insert(at_commit, 3, fair_flush)

end
