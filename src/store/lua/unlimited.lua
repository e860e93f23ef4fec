-- Part: what FETCH has in place of limits, tenants, pools and strategies where there are none: asking for each job whether
-- there are takes a sixth of the time.

lane_drained = function() end

source_begin = function(source)
  source.window = window_open(source.ready, lanes_wanted(source), source, lanes_read, source_write)
end

source_is_empty = function(source)
  return source.taken > 0 and source.window.complete and source.window.at > source.window.last
end

lane_choose = function(source)
  return window_head(source.window)
end

lane_popped = function(source, lane)
  local window = source.window
  local start, second = lane.start, window.at < window.last and window.items[window.at + 1]
  -- Mostly it stays the first.
  if start and (second and start < second.start or not second and window.complete) then return end
  window.at = window.at + 1
  if start then window_insert(window, lane) end
end

-- Queues strictly in the order in which the request names them.
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

local function put_off_ends() end

local function wake_due()
  return true
end

local function levels_close() end

local unfinished, is_short = false, true
local notes = {} -- there is nothing to note
