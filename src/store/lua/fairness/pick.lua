-- Picks the next tenant of a fair queue: the earliest deadline among tenants whose start has come.
-- The state in memory is valid because only this call changes the queue.
--
-- Class sets and moments are read in portions (`fairness/window`); what this call changes is kept
-- in order in memory.

local fair_queue = require('fairness/fair_queue')
local fair_queue_write = require('fairness/fair_queue_write')
local window_module = require('fairness/window')
local runtime = require('lib/runtime')

local int = runtime.int
local precise, tenant_leave, tenant_read = fair_queue.precise, fair_queue.tenant_leave, fair_queue.tenant_read
local tenant_start, tenant_touch, weights = fair_queue.tenant_start, fair_queue.tenant_touch, fair_queue.weights
local fair_write = fair_queue_write.fair_write
local window_head, window_insert, window_open = window_module.head, window_module.insert, window_module.open
local call = redis.call

local MOMENTS_PER_PICK, MOMENTS_READ = 64, 32
-- Departed tenants deleted per call: more than can depart in one.
local MOST_SWEPT = 256
local EMPTY = {} -- shared; never changed

-- Adds to the weight of a moment. A moment after everything that was read is read later.
local function moments_note(moments, start, weight)
  for position = moments.at, moments.last do
    local moment = moments.items[position]
    if moment.start == start then
      moment.sum = moment.sum + weight
      return
    elseif moment.start > start then
      break
    end
  end
  if weight > 0 then window_insert(moments, {start = start, name = precise(start), sum = weight}) end
end

-- Reads the first moments at which departed tenants leave, each with the sum of their weights.
local function moments_open(fair)
  local starts = fair.leavers == '' and EMPTY or call('ZRANGE', fair.key .. ':moments', '0', int(MOMENTS_READ - 1))
  local items, sums = {}, #starts > 0 and call('HMGET', fair.key .. ':sums', unpack(starts)) or EMPTY
  for position, start in ipairs(starts) do
    items[position] = {start = tonumber(start), name = start, sum = tonumber(sums[position] or nil) or 0}
  end
  fair.moments = {items = items, at = 1, last = #starts, complete = #starts < MOMENTS_READ, note = moments_note}
end

local function moments_head(fair)
  local moments = fair.moments
  if not moments or (moments.at > moments.last and not moments.complete) then
    fair_write(fair)
    moments_open(fair)
    moments = fair.moments
  end
  return moments.at <= moments.last and moments.items[moments.at] or nil
end

-- Removes the first moment and returns its weight.
local function moments_pop(fair)
  local moments = fair.moments
  local moment = moments.items[moments.at]
  moments.at, fair.passed = moments.at + 1, moment.start
  local name, unwritten = moment.name, fair.sums[moment.name]
  fair.sums[name] = nil
  if unwritten ~= moment.sum then
    call('HDEL', fair.key .. ':sums', name)
    call('ZREM', fair.key .. ':moments', name)
  end
  return moment.sum
end

-- Deletes departed tenants whose moment has passed. If no tenant waits, `fair_end` deletes all of
-- them.
local function sweep_departed(fair)
  if fair.n == 0 then return end
  fair_write(fair)
  if fair.leavers == '' then return end
  local head = moments_head(fair)
  local gone = call('ZRANGEBYSCORE', fair.key .. ':leaving', '-inf', head and '(' .. head.name or '+inf', 'LIMIT', '0', int(MOST_SWEPT))
  if #gone > 0 then
    call('ZREM', fair.key .. ':leaving', unpack(gone))
    call('HDEL', fair.key .. ':left', unpack(gone))
  end
  if not head and #gone < MOST_SWEPT then fair.leavers = '' end
end

-- Returns the tenants of a weight class, given names and starts as Redis returns them.
local function tenants_read(fair, names)
  local tenants, known, unknown = {}, fair.tenants, {}
  for position = 1, #names, 2 do
    local name = names[position]
    if not known[name] then unknown[#unknown + 1] = name end
  end
  local busy, at = #unknown > 0 and call('HMGET', fair.key .. ':busy', unpack(unknown)), 0
  local score, start
  for position = 1, #names, 2 do
    local name = names[position]
    if names[position + 1] ~= score then -- consecutive tenants often have the same
      score = names[position + 1]
      start = tonumber(score)
    end
    local tenant = known[name]
    if tenant then
      tenant.start = start
    else
      at = at + 1
      tenant = tenant_read(name, busy[at], start)
      known[name] = tenant
    end
    tenants[#tenants + 1] = tenant
  end
  return tenants
end

local function pick_open(fair, want)
  local names, windows = fair.classes.names, {}
  local size = math.max(16, math.ceil(want * 2 / math.max(#names, 1)))
  for place = 1, #names do
    local name = names[place]
    local window = window_open(fair.key .. ':c:' .. name, math.min(size, want + 1), fair, tenants_read, fair_write)
    if window.last > 0 then
      windows[#windows + 1] = window
    else
      fair.classes = weights.classes((string.gsub(fair.classes.text, ' ' .. name .. ' ', ' ')))
    end
  end
  fair.windows = windows
  moments_open(fair)
end

-- Returns the tenant whose job goes next and the window that it heads; nil if no tenant waits. If
-- no start has come, the clock jumps to the lowest one.
local function pick(fair)
  local v, windows = fair.v, fair.windows
  for _ = 1, 2 do
    local best, best_window, best_deadline, lowest
    for place = 1, #windows do
      local window = windows[place]
      local tenant = window_head(window)
      if tenant then
        if not lowest or tenant.start < lowest then lowest = tenant.start end
        if tenant.start <= v then
          local deadline = tenant.start + 1000 / tenant.weight
          if not best or deadline < best_deadline or (deadline == best_deadline and tenant.name < best.name) then
            best, best_window, best_deadline = tenant, window, deadline
          end
        end
      end
    end
    if best then return best, best_window end
    if not lowest then return nil end
    v = lowest
    fair.v = v
  end
end

-- Advances the clock by 1/W for one job, in pieces if tenants leave on the way, because W changes
-- there.
local function advance(fair)
  if fair.w == 0 then return end
  local rest = 1000
  for _ = 1, MOMENTS_PER_PICK do
    local moment = moments_head(fair)
    if not moment or moment.start > fair.v + rest / fair.w then break end
    if moment.start > fair.v then
      rest = rest - (moment.start - fair.v) * fair.w
      fair.v = moment.start
    end
    fair.w = fair.w - moments_pop(fair)
    if fair.w == 0 then return end
  end
  fair.v = fair.v + math.max(rest, 0) / fair.w
end

-- Ends the waiting of a picked tenant without a charge, because none of its jobs can go. `window`
-- is nil if it was not picked by its turn.
local function stop_waiting(fair, tenant, window)
  if window then window.at = window.at + 1 end
  tenant_leave(fair, tenant)
  tenant_touch(fair, tenant)
  fair.moved = true
end

-- Charges a tenant for one job. `window` is nil if it was not picked by its turn; `drained` is true
-- if the job was its last.
local function serve(fair, tenant, window, drained)
  if window then window.at = window.at + 1 end
  tenant.start = tenant_start(fair, tenant) + 1000 / tenant.weight
  local counts = fair.owner.counts
  if counts then tenant.promoted = tenant.promoted + 1 end
  if drained then
    fair.owner.remember(fair, tenant)
    tenant_leave(fair, tenant)
  elseif window then
    window_insert(window, tenant)
  end
  tenant_touch(fair, tenant, not counts and not drained)
  fair.moved = true
  advance(fair)
end

return {stop_waiting = stop_waiting, sweep_departed = sweep_departed, pick = pick, open = pick_open, serve = serve}
