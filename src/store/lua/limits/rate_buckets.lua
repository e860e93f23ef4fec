-- The starts under a rate, in buckets.
--
-- A bucket is `first,last,count;`, or `time;` for a single start, which most are. It counts until
-- one period after its *last* start, so no window of that length ever has more starts than the
-- limit. The first 64 starts have buckets of their own; above that, starts within a 64th of the
-- period share a bucket. So there are never more than 129 buckets.
--
-- Functions work on these fields of a limit (`limits/quota`): `starts`, the text of its buckets, the
-- oldest first; `started`, the number of starts; `entries`, the number of buckets.

local ctx = require('lib/context')
local int = require('lib/number').int

local find, match = string.find, string.match

local BUCKETS, LONGEST_BUCKET = 64, 64

-- Returns first start, last start and count of a bucket.
local function decode(text)
  local only = tonumber(text)
  if only or not text then return only, only, only and 1 end
  local first, last, number = match(text, '^(%d+),(%d+),(%d+)$')
  return tonumber(first), tonumber(last), tonumber(number)
end

-- Returns last start and count of the oldest bucket, and the position at which the next one begins.
-- Starts are kept as text, because most calls read only its ends.
local function oldest(limit)
  local text, rest = match(limit.starts, '^([^;]+);()')
  local _, last, number = decode(text)
  return last, number, rest
end

-- Returns first start, last start, count and text of the newest bucket. If there are several, the
-- first pattern finds it at once, because `.*` backtracks from the end. A pattern that is tried
-- at each position from the front is slow.
local function newest(limit)
  local tail = string.sub(limit.starts, -LONGEST_BUCKET)
  local text = match(tail, '.*;([^;]+);$') or match(tail, '^([^;]+);$')
  local first, last, number = decode(text)
  return first, last, number, text
end

-- Returns the buckets on a clock that is ahead by `by` ms.
local function shifted(starts, by)
  return (string.gsub(starts, '[^;]+', function(text)
    local first, last, number = decode(text)
    return number == 1 and first == last and int(last + by) or int(first + by) .. ',' .. int(last + by) .. ',' .. int(number)
  end))
end

-- Returns last start and count of each bucket.
local function list(limit)
  local buckets = {}
  for text in string.gmatch(limit.starts, '[^;]+') do
    local _, last, number = decode(text)
    buckets[#buckets + 1] = {last = last, count = number}
  end
  return buckets
end

-- Removes starts of a limit that are older than the period.
local function prune(limit)
  local period, last, number, rest = limit.quota.period, oldest(limit)
  if last and last + period > ctx.now then return end
  local _, last_start = newest(limit)
  if not last_start or last_start + period <= ctx.now then
    limit.starts, limit.started, limit.entries = '', 0, 0
    return
  end
  while last + period <= ctx.now do
    limit.starts, limit.started, limit.entries = string.sub(limit.starts, rest), limit.started - number, limit.entries - 1
    last, number, rest = oldest(limit)
  end
end

-- Counts a start in the newest bucket or in a new one. In most cases nothing started in this ms,
-- and a search in the text shows that.
local function count_start(limit, period)
  local starts, first, last, number, text = limit.starts, nil, nil, nil, nil
  limit.started = limit.started + 1
  if limit.entries >= BUCKETS or find(starts, ctx.now_text, -LONGEST_BUCKET, true) then
    first, last, number, text = newest(limit)
  end
  if last and (last == ctx.now or limit.entries >= BUCKETS and ctx.now - first < period / BUCKETS) then
    limit.starts = string.sub(starts, 1, -#text - 2) .. int(first) .. ',' .. ctx.now_text .. ',' .. int(number + 1) .. ';'
  else
    limit.starts, limit.entries = starts .. ctx.now_text .. ';', limit.entries + 1
  end
end

return {count_start = count_start, list = list, newest = newest, oldest = oldest, prune = prune, shifted = shifted}
