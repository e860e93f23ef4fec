-- The front of a sorted set, in memory. Members are items with a `start`, which is their score, and a `name`; what moves
-- is put back into its place here, and written by the window's owner.

local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

-- `read(owner, names)` makes items of names and scores, `write(owner)` writes what moved.
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

-- The first `size` members; where bounds are given, of those with a score between them.
local function window_open(key, size, owner, read, write, low, high)
  -- All fields that it may get: see `job_load`.
  local window = {key = key, size = size, owner = owner, read = read, write = write, low = low, high = high, items = nil,
    at = 1, last = 0, complete = false, priority = nil}
  window_fill(window)
  return window
end

-- The first item. When all that was read has moved on, what moved is written and the set read again.
local function window_head(window)
  if window.at > window.last and not window.complete then
    window.write(window.owner)
    window_fill(window)
  end
  if window.at <= window.last then return window.items[window.at] end
end

-- Puts an item into its place, unless that is behind everything that was read: then it is found there later.
local function window_insert(window, item)
  local start, name, items = item.start, item.name, window.items
  local first, after = window.at, window.last + 1
  local last = items[window.last]
  -- Most go behind the last one.
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
