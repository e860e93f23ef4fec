-- Determines what a limit allows at present.
--
-- A rate counts starts in buckets (`limits/rate_buckets`).
--
-- A throttle stores the time at which the next start is due, `ms parts limit`. It is exact: a ms
-- has as many parts as the throttle's limit.
--
-- Starts to which jobs were postponed are stored in the same way: `later` has times and counts,
-- `turn` the throttle's next start after them.
--
-- All these times, and that of a hold, are stored on the steady clock (`ctx.steady`), so a limit
-- neither opens nor stays closed because the real clock was set back. They are converted when they
-- are read and written; the code in between uses one clock.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local max_concurrency = require('tenants/quotas').max_concurrency
local held_time = require('limits/held_time')
local lanes = require('limits/lanes')
local rate_buckets = require('limits/rate_buckets')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, int, on_commit, memoize = runtime.on_begin, runtime.int, runtime.on_commit, runtime.memoize
local tenant_jobs = job_counts.tenant_jobs
local buckets_shifted, count_start, oldest_bucket = rate_buckets.shifted, rate_buckets.count_start, rate_buckets.oldest
local call = redis.call
local concat, format, match = table.concat, string.format, string.match

local M = {}

M.limits = nil

on_begin(function()
  M.limits = {}
end)

local MAX_POSTPONED = 128
-- It is unknown when a job under a concurrency limit ends. A job is postponed by TURN_MS for
-- each job before it, or by PAUSE_MS while the limit is 0.
local TURN_MS, PAUSE_MS = 1000, 60000

local NEVER, NO_FIELDS = {ms = 0, parts = 0}, {} -- shared, must not be changed
local shift -- ms by which the steady clock is ahead

on_begin(function()
  shift = ctx.steady - ctx.now
end)

-- Merges layers of quotas: each part is taken from the last layer that sets it.
local quota_of = memoize(1024, function(layers)
  local quota = {concurrency = nil, rate = nil, period = nil, throttle = nil, spread = nil}
  for layer in wire.each(layers) do
    local concurrency, rate, rate_period, throttle, throttle_period = match(layer, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    quota.concurrency = tonumber(concurrency or nil) or quota.concurrency
    if tonumber(rate or nil) then quota.rate, quota.period = tonumber(rate), tonumber(rate_period) end
    if tonumber(throttle or nil) then quota.throttle, quota.spread = tonumber(throttle), tonumber(throttle_period) end
  end
  return quota
end)

-- Decodes a throttle's time, in parts of the present limit.
local function throttle_read(text, quota)
  if not text then return NEVER end
  local ms, parts, limit = match(text, '^(%d+) (%d+) (%d+)$')
  if not ms then return NEVER end
  return {ms = ms - shift, parts = math.floor(parts * (quota.throttle or 0) / limit)}
end

local function throttle_text(time, quota)
  return int(time.ms + shift) .. ' ' .. int(time.parts) .. ' ' .. int(quota.throttle)
end

-- Returns the time of the start after one that is due at `time` and happens at `now_or_later` or
-- when it is due, whichever is later.
local function throttle_after(time, now_or_later, quota)
  local ms, parts = time.ms, time.parts + quota.spread
  if ms < now_or_later then ms, parts = now_or_later, quota.spread end
  return {ms = ms + math.floor(parts / quota.throttle), parts = parts % quota.throttle}
end

local function limit_open(key)
  local limit = M.limits[key]
  if limit then return limit end
  local name = ctx.prefix .. 'limit:' .. key
  -- Most limits have no other fields than these four.
  local words, stored, layers, starts, sums, available = call('HGETALL', name), NO_FIELDS, '', '', '', 0
  for place = 1, #words, 2 do
    local field, text = words[place], words[place + 1]
    if field == 'j' then
      layers = text
    elseif field == 'b' then
      starts = text
    elseif field == 'sums' then
      sums = text
    elseif field == 'n' then
      available = tonumber(text) or 0
    else
      if stored == NO_FIELDS then stored = {} end
      stored[field] = text
    end
  end
  held_time.cache(key, stored.held)
  local over = stored['until'] or ''
  local override = stored.o and (over == '' or tonumber(over) > ctx.now)
  -- A quota that an admin set replaces that of the file.
  if override or stored.a or stored.f then layers = wire.join(layers, stored.a or stored.f or '', override and stored.o or '') end
  local quota, started, entries = quota_of(layers), match(sums, '^(%d+) (%d+)$')
  if shift > 0 then starts = buckets_shifted(starts, -shift) end
  -- One constructor with the fields that most limits use: a table that grows is resized, and one
  -- with more than 16 fields takes twice the memory.
  limit = {key = key, name = name, stored = stored, quota = quota, hold = (tonumber(stored.hold) or 0) - shift, waiting = tonumber(stored.w) or 0,
    hit = stored.hit, available = available, starts = starts, started = tonumber(started) or 0, entries = tonumber(entries) or 0,
    next = throttle_read(stored.next, quota), running = 0, run = name .. ':run', dirty = nil, available_change = nil}
  if override then limit.overridden = over end
  if quota.period then rate_buckets.prune(limit) end
  local letter = string.byte(key)
  if letter == 33 then -- !, a tenant
    local owner = string.sub(key, 2)
    limit.quota, limit.running = {concurrency = max_concurrency(owner) or nil}, tenant_jobs(owner).active
  elseif letter == 35 then -- #, a queue
    limit.running = tonumber(call('HGET', ctx.prefix .. 'counts:' .. string.sub(key, 2), 'active') or nil) or 0
  else
    limit.running = call('SCARD', limit.run)
  end
  M.limits[key] = limit
  return limit
end

-- Returns the time at which a limit must be checked again: `at`, or the end of its override if that
-- is earlier. Nil if time alone changes nothing.
local function next_check(limit, at)
  local ends = tonumber(limit.overridden)
  if ends and (not at or ends < at) then return ends end
  return at
end

-- Returns the end of the override if it sets this part of the limit, else nil. From then on the
-- part allows something else, so a start that it postpones happens at the latest then.
local function override_end(limit, part)
  local ends = tonumber(limit.overridden)
  return ends and quota_of(limit.stored.o)[part] and ends
end

-- Returns the throttle's next start after one at `time`.
local function throttle_next(limit, time, now_or_later)
  local next, ends = throttle_after(time, now_or_later, limit.quota), override_end(limit, 'throttle')
  return ends and next.ms > ends and {ms = ends, parts = 0} or next
end

-- Returns the number of jobs that may start now. If it is 0, also returns the reason, the time at
-- which to check again (nil if time alone changes nothing), the maximum and the number that counts
-- against it.
local function limit_room(limit)
  local quota, room = limit.quota, math.huge
  if limit.hold > ctx.now then return 0, 'hold', next_check(limit, limit.hold), 0, limit.running end
  if quota.concurrency then
    room = quota.concurrency - limit.running
    if room <= 0 then return 0, 'concurrency', next_check(limit), quota.concurrency, limit.running end
  end
  if quota.rate then
    local left = quota.rate - limit.started
    if left <= 0 then return 0, 'rate', next_check(limit, oldest_bucket(limit) + quota.period), quota.rate, limit.started end
    room = math.min(room, left)
  end
  if quota.throttle then
    local due = limit.next
    if due.ms > ctx.now then return 0, 'throttle', next_check(limit, due.ms), quota.throttle, 1 end
    -- Starts that are due within this ms.
    room = math.min(room, math.ceil((quota.throttle - (due.ms == ctx.now and due.parts or 0)) / quota.spread))
  end
  return room
end

-- Returns the time at which there is more room by time alone, or nil. Starts that a throttle allows
-- within one ms do not accumulate.
local function limit_grows_at(limit)
  local first = limit.quota.rate and oldest_bucket(limit)
  return next_check(limit, first and first + limit.quota.period or nil)
end

-- Counts the start of a job under the limit.
local function limit_start(limit)
  local quota = limit.quota
  limit.running = limit.running + 1
  limit.dirty = limit.dirty or quota.rate or quota.throttle
  if quota.rate then count_start(limit, quota.period) end
  if quota.throttle then limit.next = throttle_next(limit, limit.next, ctx.now) end
end

-- Returns starts to which jobs were postponed; decodes them on first use.
local function postponed_open(limit)
  if limit.postponed then return limit.postponed end
  local later = {}
  for at, number in string.gmatch(limit.stored.later or '', '(%d+),(%d+);') do
    later[#later + 1] = {last = at - shift, count = tonumber(number)}
  end
  limit.postponed = later
  return later
end

-- Returns the time at which the window has room for another start after all that happened or are
-- reserved.
local function window_slot(limit)
  local before = limit.quota.rate
  for _, list in ipairs({postponed_open(limit), rate_buckets.list(limit)}) do
    for position = #list, 1, -1 do
      before = before - list[position].count
      if before <= 0 then return list[position].last + limit.quota.period end
    end
  end
  return ctx.now
end

local function concurrency_slot(limit, last)
  local most = limit.quota.concurrency
  if limit.running < most then return ctx.now end
  if most == 0 then return override_end(limit, 'concurrency') or ctx.now + PAUSE_MS end
  if last and last.count < most then return last.last end
  return math.max(last and last.last or 0, ctx.now) + TURN_MS
end

-- Reserves the next start for a job that is postponed, and returns its time. It is exact for rates,
-- throttles, holds and overrides that end.
local function limit_reserve(limit)
  local quota, later = limit.quota, postponed_open(limit)
  while later[1] and later[1].last <= ctx.now do table.remove(later, 1) end
  local last = later[#later]
  local at = math.max(limit.hold, ctx.now + 1)
  local function no_earlier_than(slot, part)
    at = math.max(at, math.min(slot, override_end(limit, part) or slot))
  end
  if quota.rate then no_earlier_than(window_slot(limit), 'rate') end
  if quota.concurrency then no_earlier_than(concurrency_slot(limit, last), 'concurrency') end
  if quota.throttle then
    local next, turn = limit.next, limit.postponed_next or throttle_read(limit.stored.turn, quota)
    if turn.ms > next.ms or turn.ms == next.ms and turn.parts > next.parts then next = turn end
    no_earlier_than(next.ms, 'throttle')
    limit.postponed_next = throttle_next(limit, next, at)
  end
  -- The end of an override may lie before starts that were reserved earlier.
  local place = #later
  while place > 0 and later[place].last > at do place = place - 1 end
  if place > 0 and later[place].last == at then
    later[place].count = later[place].count + 1
  else
    table.insert(later, place + 1, {last = at, count = 1})
  end
  if #later > MAX_POSTPONED then
    later[2].count = later[2].count + later[1].count
    table.remove(later, 1)
  end
  limit.has_reserved = true
  return at
end

-- Adds a change of the number of available jobs to an open limit, so that it is written with the
-- other changes of the limit. Returns nil if this call has not opened the limit.
local function limit_add_available(key, by)
  local limit = M.limits[key]
  if limit then limit.available_change = by end
  return limit
end

-- Writes the changes of a limit.
local function limit_write(limit)
  local quota, fields = limit.quota, {nil, nil, nil, nil, nil, nil}
  if limit.dirty and quota.rate then
    local starts = shift > 0 and buckets_shifted(limit.starts, shift) or limit.starts
    fields[1], fields[2], fields[3], fields[4] = 'b', starts, 'sums', format('%d %d', limit.started, limit.entries)
  end
  if limit.dirty and quota.throttle then fields[#fields + 1], fields[#fields + 2] = 'next', throttle_text(limit.next, quota) end
  if limit.available_change then
    limit.available, limit.available_change = limit.available + limit.available_change, nil
    fields[#fields + 1], fields[#fields + 2] = 'n', int(limit.available)
  end
  if limit.has_reserved then
    local parts = {}
    for position, start in ipairs(limit.postponed) do parts[position] = int(start.last + shift) .. ',' .. int(start.count) .. ';' end
    fields[#fields + 1], fields[#fields + 2] = 'later', concat(parts)
    if quota.throttle then fields[#fields + 1], fields[#fields + 2] = 'turn', throttle_text(limit.postponed_next, quota) end
  end
  if fields[1] then call('HSET', limit.name, unpack(fields)) end
  limit.dirty, limit.has_reserved = nil, nil
end

on_commit('limits', function()
  for _, limit in pairs(M.limits) do
    if limit.dirty or limit.available_change or limit.has_reserved then limit_write(limit) end
  end
end)

on_begin(function()
  lanes.add_to_open = limit_add_available
end)

M.limit_grows_at = limit_grows_at
M.limit_open = limit_open
M.limit_reserve = limit_reserve
M.limit_room = limit_room
M.limit_start = limit_start

return M
