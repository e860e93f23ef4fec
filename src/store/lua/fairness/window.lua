-- A window: the first members of a sorted set, in memory. An item has a `start`, which is its
-- score, and a `name`. Moved items are inserted again in order; the owner of the window writes
-- them.

local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

-- Reads the window. `read(owner, names)` returns items for names and scores; `write(owner)` writes
-- moved items.
local function window_fill(window)
  local names
  if window.low then
    names = call('ZRANGEBYSCORE', window.key, window.low, window.high, 'WITHSCORES', 'LIMIT', '0', int(window.size))
  else
    names = call('ZRANGE', window.key, '0', int(window.size - 1), 'WITHSCORES')
  end
  local items = window.read(window.owner, names)
  window.items, window.at, window.last, window.complete = items, 1, #items, #names < window.size * 2
end

-- Opens a window on the first `size` members; with bounds, on those with a score between them.
local function window_open(key, size, owner, read, write, low, high)
  -- All fields are set at once: a table that grows is laid out several times.
  local window = {key = key, size = size, owner = owner, read = read, write = write, low = low, high = high, items = nil,
    at = 1, last = 0, complete = false, priority = nil}
  window_fill(window)
  return window
end

-- Returns the first item, or nil. If all items have moved on, writes them and reads the next ones.
local function window_head(window)
  if window.at > window.last and not window.complete then
    window.write(window.owner)
    window_fill(window)
  end
  if window.at <= window.last then return window.items[window.at] end
end

-- Inserts an item in order. An item after everything that was read is dropped: it is read later.
local function window_insert(window, item)
  local start, name, items = item.start, item.name, window.items
  local first, after = window.at, window.last + 1
  local last = items[window.last]
  -- Most items belong after the last one.
  if first < after and (last.start < start or (last.start == start and last.name < name)) then first = after end
  while first < after do
    local middle = math.floor((first + after) / 2)
    local other = items[middle]
    if other.start < start or (other.start == start and other.name < name) then first = middle + 1 else after = middle end
  end
  if first > window.last and not window.complete then return end
  table.insert(items, first, item)
  window.last = window.last + 1
end

return {fill = window_fill, head = window_head, insert = window_insert, open = window_open}
