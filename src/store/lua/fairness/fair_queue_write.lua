-- Writes fair queues at the end of a call: `fairness/fair_queue` describes the keys.

local fair_queue = require('fairness/fair_queue')
local runtime = require('lib/runtime')

local int, on_commit, send = runtime.int, runtime.on_commit, runtime.send
local precise, weights = fair_queue.precise, fair_queue.weights
local call = redis.call
local find = string.find

-- Returns the list of a weight class, and creates it first if necessary.
local function of_class(lists, class)
  local list = lists[class]
  if not list then
    list = {}
    lists[class] = list
  end
  return list
end

local function pair(list, first, second)
  local size = #list
  list[size + 1], list[size + 2] = first, second
end

-- Returns the entry of a tenant in `busy`. Many tenants that change in one call have the same
-- entry, so the text of the previous one is reused if it is equal.
local function busy_text(tenant, like, text)
  if like and like.promoted == tenant.promoted and like.since == tenant.since and like.asked == tenant.asked
    and like.weight == tenant.weight and like.state == tenant.state and like.otherwise == tenant.otherwise then
    return text
  end
  return weights.text(tenant.weight) .. ' ' .. tenant.state .. ' ' .. int(tenant.promoted) .. ' ' .. tenant.since .. ' '
    .. tenant.asked .. (tenant.otherwise and ' ' .. weights.text(tenant.otherwise) or '')
end

-- Writes tenants of which only the start has changed.
local function starts_write(fair)
  local touched, placed = fair.touched, {}
  for position = 1, #touched do
    local tenant = touched[position]
    pair(of_class(placed, tenant.was_class), precise(tenant.start), tenant.name)
    tenant.touched = nil
  end
  for class, list in pairs(placed) do send('ZADD', fair.key .. ':c:' .. class, list) end
end

-- Sends a list to a key below F. The name of the key is built only if there is something to send.
local function send_below(command, key, below, list)
  if #list > 0 then send(command, key .. below, list) end
end

-- Writes all changes of tenants. If the queue has ended, its class sets are deleted already.
local function tenants_write(fair, has_ended)
  local touched, key, gone, placed = fair.touched, fair.key, {}, {}
  local busy, idle, left, stayed, leaving, held, freed, unknown, answered = {}, {}, {}, {}, {}, {}, {}, {}, {}
  local like, now_busy
  for position = 1, #touched do
    local tenant = touched[position]
    local name, state, was, was_class = tenant.name, tenant.state, tenant.was, tenant.was_class
    local class = state == 'w' and weights.class(tenant.weight) or nil
    if was_class and was_class ~= class and not has_ended then
      local list = of_class(gone, was_class)
      list[#list + 1] = name
    end
    if class then pair(of_class(placed, class), precise(tenant.start), name) end
    if tenant.left then
      local start = precise(tenant.start)
      pair(leaving, start, name)
      pair(left, name, weights.text(tenant.left) .. ' ' .. start)
    elseif tenant.was_left then
      stayed[#stayed + 1] = name
    end
    if state == 'h' then
      pair(held, tenant.asked, name)
    elseif was and not was_class then
      freed[#freed + 1] = name
    end
    if state == 'u' then
      pair(unknown, tenant.since, name)
    elseif was and not was_class and find(was, ' u ', 1, true) then
      answered[#answered + 1] = name
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
  send_below('ZREM', key, ':leaving', stayed)
  send_below('ZADD', key, ':leaving', leaving)
  send_below('HDEL', key, ':left', stayed)
  send_below('HSET', key, ':left', left)
  send_below('ZREM', key, ':held', freed)
  send_below('ZADD', key, ':held', held)
  send_below('ZREM', key, ':unknown', answered)
  send_below('ZADD', key, ':unknown', unknown)
  send_below('HDEL', key, ':busy', idle)
  send_below('HSET', key, ':busy', busy)
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
    if not fair.classes.has[class] then fair.classes = weights.classes(fair.classes.text .. class .. ' ') end
  end
end

-- Writes the changed tenants; one command per set, however many tenants changed.
local function fair_write(fair, has_ended)
  if fair.changed or next(fair.sums) then
    tenants_write(fair, has_ended)
  elseif #fair.touched > 0 then
    starts_write(fair)
  else
    return
  end
  fair.touched, fair.changed = {}, nil
end

-- Deletes the clock, the classes and the departed tenants of a queue in which no tenant waits.
local function fair_end(fair)
  local key, keys = fair.key, {}
  for place, name in ipairs(fair.classes.names) do keys[place] = key .. ':c:' .. name end
  if fair.leavers ~= '' then
    for _, below in ipairs({':leaving', ':left', ':moments', ':sums'}) do keys[#keys + 1] = key .. below end
  end
  if #keys > 0 then call('UNLINK', unpack(keys)) end
  for _, tenant in pairs(fair.tenants) do tenant.left, tenant.was_left = nil, nil end
  fair.v, fair.w, fair.sums, fair.moments, fair.passed, fair.classes, fair.leavers = 0, 0, {}, nil, nil, weights.classes(' '), ''
end

local function fair_flush()
  for _, fair in pairs(fair_queue.fairs()) do
    local has_ended = fair.n == 0 and fair.had_n > 0
    local waiting, waited = fair.n + fair.u, fair.had_n + fair.had_u
    if has_ended then fair_end(fair) end
    fair_write(fair, has_ended)
    local is_other = fair.n ~= fair.had_n or fair.w ~= fair.had_w or fair.jobs ~= fair.had_jobs
    if is_other then
      call('HSET', fair.key, 'v', precise(fair.v), 'w', int(fair.w), 'n', int(fair.n), 'jobs', int(fair.jobs),
        'classes', fair.classes.text, 'leavers', fair.leavers)
    elseif fair.moved then
      call('HSET', fair.key, 'v', precise(fair.v))
    end
    -- The clock alone is no reason to write: a preview of the order moves it too.
    if not is_other and (fair.classes ~= fair.had_classes or fair.leavers ~= fair.had_leavers) then
      call('HSET', fair.key, 'classes', fair.classes.text, 'leavers', fair.leavers)
    end
    if fair.u ~= fair.had_u then call('HSET', fair.key, 'u', int(fair.u)) end
    fair.owner.flushed(fair, waiting > 0 and waited == 0, waiting == 0 and waited > 0)
    fair.had_n, fair.had_u, fair.had_w, fair.had_jobs, fair.moved = fair.n, fair.u, fair.w, fair.jobs, nil
    fair.had_classes, fair.had_leavers = fair.classes, fair.leavers
  end
end
-- Runs after `lanes`, which adds tenants, and before the phases that count them.
on_commit('fairness', fair_flush)

return {fair_flush = fair_flush, fair_write = fair_write}
