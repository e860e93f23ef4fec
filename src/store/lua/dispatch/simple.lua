-- The strategy of a fetch if there are no limits, pools, settings of queues or tenants that take
-- turns (`commands/fetch`). It exists for speed: checking for these with each job takes a sixth of
-- the time.

local window_module = require('fairness/window')
local source_module = require('dispatch/source')

local window_head, window_insert, window_open = window_module.head, window_module.insert, window_module.open
local lanes_read, lanes_wanted, source_next = source_module.lanes_read, source_module.lanes_wanted, source_module.next
local source_write = source_module.write

local function lane_drained() end

local function source_begin(source)
  source.window = window_open(source.ready, lanes_wanted(source), source, lanes_read, source_write)
end

local function source_is_empty(source)
  return source.taken > 0 and source.window.complete and source.window.at > source.window.last
end

local function lane_choose(source)
  return window_head(source.window)
end

local function lane_popped(source, lane)
  local window = source.window
  local start, second = lane.start, window.at < window.last and window.items[window.at + 1]
  -- In most cases the lane stays the first.
  if start and (second and start < second.start or not second and window.complete) then return end
  window.at = window.at + 1
  if start then window_insert(window, lane) end
end

-- Serves queues strictly in the order of the request.
local function turn_open(request)
  return {queues = request.queues, at = 1}
end

local function turn_next(turn)
  while turn.at <= #turn.queues do
    local id, lane = source_next(turn.queues[turn.at])
    if id then return id, lane end
    turn.at = turn.at + 1
  end
end

local function tenant_next() end

local function turns_close() end

local function admit() end

local function lease_under()
  return ''
end

local function report_postponed() end

local function wake_due()
  return true
end

local function levels_close() end

local CHOOSER = {open = source_begin, choose = lane_choose, ensure_lane = nil, popped = lane_popped, drained = lane_drained,
  is_empty = source_is_empty}

local function begin(requests)
  source_module.use(CHOOSER)
  local wanted = source_module.wanted
  for index = 1, #requests do
    local request = requests[index]
    local queues = request.queues
    request.served = queues
    for position = 1, #queues do wanted[queues[position]] = (wanted[queues[position]] or 0) + request.count end
  end
end

local function is_unfinished()
  return false
end

local function metrics()
  return {}
end

return {
  begin = begin,
  is_unfinished = is_unfinished,
  metrics = metrics,
  admit = admit,
  lease_under = lease_under,
  levels_close = levels_close,
  report_postponed = report_postponed,
  tenant_next = tenant_next,
  turn_next = turn_next,
  turn_open = turn_open,
  turns_close = turns_close,
  wake_due = wake_due,
}
