-- Part: what a limit allows now.
--
-- A rate is counted in at most 65 buckets, each of up to a 64th of the period: `first,last,count;…`. A bucket counts until the
-- period after its *last* start is over, so that no window of that length ever holds more than the limit; up to 64 starts a
-- period are counted exactly. A throttle keeps the time from which on the next start is due, in fractions of a ms.

local BUCKETS = 64
local limits = {}

local function quota_of(layers)
  local quota = {}
  for _, text in ipairs(layers) do
    local concurrency, rate, rate_period, throttle, throttle_period = match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    quota.concurrency = tonumber(concurrency or nil) or quota.concurrency
    if tonumber(rate or nil) then quota.rate, quota.period = tonumber(rate), tonumber(rate_period) end
    if tonumber(throttle or nil) then quota.throttle, quota.spacing = tonumber(throttle), tonumber(throttle_period) / throttle end
    if tonumber(throttle or nil) then quota.throttle_period = tonumber(throttle_period) end
  end
  return quota
end

-- Forgets starts that are older than the period.
local function limit_prune(limit)
  local period = limit.quota.period
  while limit.buckets[1] and limit.buckets[1].last + period <= now do
    limit.started = limit.started - limit.buckets[1].count
    table.remove(limit.buckets, 1)
  end
end

local function limit_open(key)
  local limit = limits[key]
  if limit then return limit end
  local name = P .. 'limit:' .. key
  local f = call('HMGET', name, 'j', 'f', 'a', 'o', 'until', 'hold', 'b', 'next', 'w', 'hit', 'n', 'later', 'slots')
  local layers = {}
  layers[1] = f[1] or nil
  layers[#layers + 1] = f[3] or f[2] or nil -- what an admin set stands in place of the file's
  local override = f[4] and ((f[5] or '') == '' or tonumber(f[5]) > now)
  if override then layers[#layers + 1] = f[4] end
  limit = {key = key, name = name, quota = quota_of(layers), hold = tonumber(f[6] or nil) or 0, next = tonumber(f[8] or nil) or 0,
    waiting = tonumber(f[9] or nil) or 0, hit = f[10], available = tonumber(f[11] or nil) or 0, buckets = {}, started = 0,
    overridden = override and (f[5] or '') or nil, later = tonumber(f[12] or nil) or 0, slots = tonumber(f[13] or nil) or 0,
    file = f[2], admin = f[3]}
  limit.exists = f[1] or f[2] or f[3] or f[4] or f[6] or f[11]
  for first, last, number in string.gmatch(f[7] or '', '(%d+),(%d+),(%d+);') do
    limit.buckets[#limit.buckets + 1] = {first = tonumber(first), last = tonumber(last), count = tonumber(number)}
    limit.started = limit.started + tonumber(number)
  end
  if limit.quota.period then limit_prune(limit) end
  limit.running = call('SCARD', name .. ':run')
  local queue = match(key, '^queue:(.*)$')
  if queue then limit.running = limit.running + (tonumber(call('HGET', P .. 'counts:' .. queue, 'active') or nil) or 0) end
  limits[key] = limit
  return limit
end

-- How many jobs may start now; where none may: why, from when on if time alone will tell, the limit and what counts against it.
local function limit_room(limit)
  local quota, room = limit.quota, math.huge
  if limit.hold > now then return 0, 'hold', limit.hold, 0, limit.running end
  if quota.concurrency then
    room = quota.concurrency - limit.running
    if room <= 0 then return 0, 'concurrency', nil, quota.concurrency, limit.running end
  end
  if quota.rate then
    local left = quota.rate - limit.started
    if left <= 0 then return 0, 'rate', limit.buckets[1].last + quota.period, quota.rate, limit.started end
    room = math.min(room, left)
  end
  if quota.throttle then
    if math.floor(limit.next) > now then
      return 0, 'throttle', math.floor(limit.next), quota.throttle, 1
    end
    room = math.min(room, math.ceil((now + 1 - math.max(limit.next, now)) / quota.spacing))
  end
  return room
end

-- A job under the limit starts.
local function limit_start(limit)
  local quota = limit.quota
  limit.running = limit.running + 1
  limit.dirty = limit.dirty or quota.rate or quota.throttle
  if quota.rate then
    local last = limit.buckets[#limit.buckets]
    if last and now - last.first < quota.period / BUCKETS then
      last.last, last.count = now, last.count + 1
    else
      limit.buckets[#limit.buckets + 1] = {first = now, last = now, count = 1}
    end
    limit.started = limit.started + 1
  end
  if quota.throttle then limit.next = math.max(limit.next, now) + quota.spacing end
end

-- When the k-th job from now may start: exact for windows, throttles and holds, one second a turn for concurrency.
local function limit_slot(limit, k)
  local quota, at = limit.quota, math.max(limit.hold, now)
  if quota.rate then
    local turns, place = math.floor((k - 1) / quota.rate), (k - 1) % quota.rate + 1
    local free, when = quota.rate - limit.started, now
    if place > free then
      place = place - free
      for _, bucket in ipairs(limit.buckets) do
        when, place = bucket.last + quota.period, place - bucket.count
        if place <= 0 then break end
      end
    end
    at = math.max(at, when + turns * quota.period)
  end
  if quota.throttle then at = math.max(at, math.ceil(math.max(limit.next, now) + (k - 1) * quota.spacing)) end
  if quota.concurrency then
    local free = quota.concurrency - limit.running
    if k > free then
      local turns = math.ceil((k - math.max(free, 0)) / math.max(quota.concurrency, 1))
      at = math.max(at, now + (quota.concurrency == 0 and 60000 or 1000) * turns)
    end
  end
  return at
end

at_commit[#at_commit + 1] = function()
  for _, limit in pairs(limits) do
    if limit.dirty then
      local parts = {}
      for position, bucket in ipairs(limit.buckets) do
        parts[position] = int(bucket.first) .. ',' .. int(bucket.last) .. ',' .. int(bucket.count) .. ';'
      end
      call('HSET', limit.name, 'b', concat(parts), 'next', format('%.3f', limit.next))
      limit.dirty = nil
    end
  end
end
