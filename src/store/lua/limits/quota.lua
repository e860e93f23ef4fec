-- What a limit allows now.
--
-- A rate is counted in buckets, `first,last,count;…`, or `time;` where one holds one start, as most do. A bucket counts until the
-- period after its *last* start is over, so that no window of that length ever holds more than the limit. The first 64 starts are
-- counted exactly; where there are more in a period, those within a 64th of it share a bucket, so that there are never more than
-- 129.
--
-- A throttle keeps the time at which the next start is due, `ms parts limit`: exactly, in parts of a ms, of which one has as
-- many as the throttle's limit.
--
-- Starts to which jobs were put off are kept in the same way: `later`, times and how many, and `turn`, the throttle's next after
-- them.
--
-- All these times, and that of a hold, are stored on the steady clock (`lib/runtime`): a limit neither opens nor stays closed because
-- the real one was set back. They are translated where they are read and written, so that the code between knows one clock.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local tenant_capped = require('tenants/quotas').active_limit
local held_time = require('limits/held_time')
local lanes = require('limits/lanes')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, int, on_commit, remembering = runtime.on_begin, runtime.int, runtime.on_commit, runtime.remembering
local tenant_jobs = job_counts.tenant_jobs
local held = held_time.held
local call = redis.call
local concat, find, format, match = table.concat, string.find, string.format, string.match

local M = {}

M.limits = nil

on_begin(function()
  M.limits = {}
end)

local BUCKETS, MOST_LATER, LONGEST_BUCKET = 64, 128, 64
-- What is free when under a concurrency limit nobody knows: a job is put off by this long for each turn; or until a pause is
-- looked at again.
local TURN_LASTS, PAUSE_LASTS = 1000, 60000

local NEVER, NOTHING = {ms = 0, parts = 0}, {} -- nobody changes them
local shift -- by how much the steady clock is ahead

on_begin(function()
  shift = ctx.steady - ctx.now
end)

-- Layers of quotas as one: each part is that of the last which sets it.
local quota_of = remembering(1024, function(layers)
  local quota = {concurrency = nil, rate = nil, period = nil, throttle = nil, spread = nil}
  for layer in wire.each(layers) do
    local concurrency, rate, rate_period, throttle, throttle_period = match(layer, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    quota.concurrency = tonumber(concurrency or nil) or quota.concurrency
    if tonumber(rate or nil) then quota.rate, quota.period = tonumber(rate), tonumber(rate_period) end
    if tonumber(throttle or nil) then quota.throttle, quota.spread = tonumber(throttle), tonumber(throttle_period) end
  end
  return quota
end)

-- First and last start of a bucket, and how many they are.
local function bucket_read(text)
  local only = tonumber(text)
  if only or not text then return only, only, only and 1 end
  local first, last, number = match(text, '^(%d+),(%d+),(%d+)$')
  return tonumber(first), tonumber(last), tonumber(number)
end

-- Starts are kept as text, and most calls look at its ends only: the first bucket's last start, its count, and where the next begins.
local function starts_first(limit)
  local text, rest = match(limit.starts, '^([^;]+);()')
  local _, last, number = bucket_read(text)
  return last, number, rest
end

-- The last bucket: first and last start, count, and its text. Where another bucket stands before it, a
-- pattern that looks back for that one's end is done at once; one that tries every place from the front is not.
local function starts_last(limit)
  local tail = string.sub(limit.starts, -LONGEST_BUCKET)
  local text = match(tail, '.*;([^;]+);$') or match(tail, '^([^;]+);$')
  local first, last, number = bucket_read(text)
  return first, last, number, text
end

-- The same buckets on a clock that is ahead by so many ms.
local function starts_moved(starts, by)
  return (string.gsub(starts, '[^;]+', function(text)
    local first, last, number = bucket_read(text)
    return number == 1 and first == last and int(last + by) or int(first + by) .. ',' .. int(last + by) .. ',' .. int(number)
  end))
end

local function starts_list(limit)
  local list = {}
  for text in string.gmatch(limit.starts, '[^;]+') do
    local _, last, number = bucket_read(text)
    list[#list + 1] = {last = last, count = number}
  end
  return list
end

-- Forgets starts that are older than the period.
local function limit_prune(limit)
  local period, last, number, rest = limit.quota.period, starts_first(limit)
  if last and last + period > ctx.now then return end
  local _, newest = starts_last(limit)
  if not newest or newest + period <= ctx.now then
    limit.starts, limit.started, limit.entries = '', 0, 0
    return
  end
  while last + period <= ctx.now do
    limit.starts, limit.started, limit.entries = string.sub(limit.starts, rest), limit.started - number, limit.entries - 1
    last, number, rest = starts_first(limit)
  end
end

-- The time of a throttle as it is kept, in parts of the present limit.
local function throttle_read(text, quota)
  if not text then return NEVER end
  local ms, parts, limit = match(text, '^(%d+) (%d+) (%d+)$')
  if not ms then return NEVER end
  return {ms = ms - shift, parts = math.floor(parts * (quota.throttle or 0) / limit)}
end

local function throttle_text(time, quota)
  return int(time.ms + shift) .. ' ' .. int(time.parts) .. ' ' .. int(quota.throttle)
end

-- A start that is due at a time happens, not before `now_or_later`: the time at which the next is due.
local function throttle_after(time, now_or_later, quota)
  local ms, parts = time.ms, time.parts + quota.spread
  if ms < now_or_later then ms, parts = now_or_later, quota.spread end
  return {ms = ms + math.floor(parts / quota.throttle), parts = parts % quota.throttle}
end

local function limit_open(key)
  local limit = M.limits[key]
  if limit then return limit end
  local name = ctx.prefix .. 'limit:' .. key
  -- Mostly nothing is said of a limit but these four.
  local words, told, layers, starts, sums, available = call('HGETALL', name), NOTHING, '', '', '', 0
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
      if told == NOTHING then told = {} end
      told[field] = text
    end
  end
  held.loaded(key, told.held)
  local over = told['until'] or ''
  local override = told.o and (over == '' or tonumber(over) > ctx.now)
  -- What an admin set stands in place of the file's.
  if override or told.a or told.f then layers = wire.join(layers, told.a or told.f or '', override and told.o or '') end
  local quota, started, entries = quota_of(layers), match(sums, '^(%d+) (%d+)$')
  if shift > 0 then starts = starts_moved(starts, -shift) end
  -- All fields that most get: a table that grows field by field is laid out anew, and one of 17 is twice as large.
  limit = {key = key, name = name, told = told, quota = quota, hold = (tonumber(told.hold) or 0) - shift, waiting = tonumber(told.w) or 0,
    hit = told.hit, available = available, starts = starts, started = tonumber(started) or 0, entries = tonumber(entries) or 0,
    next = throttle_read(told.next, quota), running = 0, run = name .. ':run', dirty = nil, more = nil}
  if override then limit.overridden = over end
  if quota.period then limit_prune(limit) end
  local letter = string.byte(key)
  if letter == 33 then -- !
    local owner = string.sub(key, 2)
    limit.quota, limit.running = {concurrency = tenant_capped(owner) or nil}, tenant_jobs(owner).active
  elseif letter == 35 then -- #
    limit.running = tonumber(call('HGET', ctx.prefix .. 'counts:' .. string.sub(key, 2), 'active') or nil) or 0
  else
    limit.running = call('SCARD', limit.run)
  end
  M.limits[key] = limit
  return limit
end

-- When a limit is to be looked at again that stops somebody until a time, or for how long nobody knows.
local function look_at(limit, at)
  local ends = tonumber(limit.overridden)
  if ends and (not at or ends < at) then return ends end
  return at
end

-- When the override ends that sets a part of the limit; nil if none does, or it never ends. A start that it puts off happens then at
-- the latest, because the part allows something else from then on.
local function part_ends(limit, part)
  local ends = tonumber(limit.overridden)
  return ends and quota_of(limit.told.o)[part] and ends
end

-- The throttle's next start after one at a time.
local function throttle_next(limit, time, now_or_later)
  local next, ends = throttle_after(time, now_or_later, limit.quota), part_ends(limit, 'throttle')
  return ends and next.ms > ends and {ms = ends, parts = 0} or next
end

-- How many jobs may start now; where none may: why, when to look again if time may tell, the limit and what counts against it.
local function limit_room(limit)
  local quota, room = limit.quota, math.huge
  if limit.hold > ctx.now then return 0, 'hold', look_at(limit, limit.hold), 0, limit.running end
  if quota.concurrency then
    room = quota.concurrency - limit.running
    if room <= 0 then return 0, 'concurrency', look_at(limit), quota.concurrency, limit.running end
  end
  if quota.rate then
    local left = quota.rate - limit.started
    if left <= 0 then return 0, 'rate', look_at(limit, starts_first(limit) + quota.period), quota.rate, limit.started end
    room = math.min(room, left)
  end
  if quota.throttle then
    local due = limit.next
    if due.ms > ctx.now then return 0, 'throttle', look_at(limit, due.ms), quota.throttle, 1 end
    -- Those that are due within this ms.
    room = math.min(room, math.ceil((quota.throttle - (due.ms == ctx.now and due.parts or 0)) / quota.spread))
  end
  return room
end

-- When there may be more room than now, by time alone; nil if never. What a throttle lets go in one ms does not add up.
local function limit_grows(limit)
  local first = limit.quota.rate and starts_first(limit)
  return look_at(limit, first and first + limit.quota.period or nil)
end

-- Counts a start in the last bucket, or in one of its own. Mostly that is plain to see: nothing has started in this ms.
local function start_count(limit, period)
  local starts, first, last, number, text = limit.starts, nil, nil, nil, nil
  limit.started = limit.started + 1
  if limit.entries >= BUCKETS or find(starts, ctx.now_text, -LONGEST_BUCKET, true) then
    first, last, number, text = starts_last(limit)
  end
  if last and (last == ctx.now or limit.entries >= BUCKETS and ctx.now - first < period / BUCKETS) then
    limit.starts = string.sub(starts, 1, -#text - 2) .. int(first) .. ',' .. ctx.now_text .. ',' .. int(number + 1) .. ';'
  else
    limit.starts, limit.entries = starts .. ctx.now_text .. ';', limit.entries + 1
  end
end

-- A job under the limit starts.
local function limit_start(limit)
  local quota = limit.quota
  limit.running = limit.running + 1
  limit.dirty = limit.dirty or quota.rate or quota.throttle
  if quota.rate then start_count(limit, quota.period) end
  if quota.throttle then limit.next = throttle_next(limit, limit.next, ctx.now) end
end

-- Starts that jobs were put off to: read by the first who asks.
local function later_open(limit)
  if limit.later then return limit.later end
  local later = {}
  for at, number in string.gmatch(limit.told.later or '', '(%d+),(%d+);') do
    later[#later + 1] = {last = at - shift, count = tonumber(number)}
  end
  limit.later = later
  return later
end

-- The time at which the window lets another start, after those that have started and those that were put off.
local function window_slot(limit)
  local before = limit.quota.rate
  for _, list in ipairs({later_open(limit), starts_list(limit)}) do
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
  if most == 0 then return part_ends(limit, 'concurrency') or ctx.now + PAUSE_LASTS end
  if last and last.count < most then return last.last end
  return math.max(last and last.last or 0, ctx.now) + TURN_LASTS
end

-- The time at which a job that is put off may start: each gets the next one, exact for windows, throttles, holds and overrides that end.
local function limit_reserve(limit)
  local quota, later = limit.quota, later_open(limit)
  while later[1] and later[1].last <= ctx.now do table.remove(later, 1) end
  local last = later[#later]
  local at = math.max(limit.hold, ctx.now + 1)
  local function no_earlier_than(slot, part)
    at = math.max(at, math.min(slot, part_ends(limit, part) or slot))
  end
  if quota.rate then no_earlier_than(window_slot(limit), 'rate') end
  if quota.concurrency then no_earlier_than(concurrency_slot(limit, last), 'concurrency') end
  if quota.throttle then
    local next, turn = limit.next, limit.turn or throttle_read(limit.told.turn, quota)
    if turn.ms > next.ms or turn.ms == next.ms and turn.parts > next.parts then next = turn end
    no_earlier_than(next.ms, 'throttle')
    limit.turn = throttle_next(limit, next, at)
  end
  -- The end of an override may lie before starts to which others were put off earlier.
  local place = #later
  while place > 0 and later[place].last > at do place = place - 1 end
  if place > 0 and later[place].last == at then
    later[place].count = later[place].count + 1
  else
    table.insert(later, place + 1, {last = at, count = 1})
  end
  if #later > MOST_LATER then
    later[2].count = later[2].count + later[1].count
    table.remove(later, 1)
  end
  limit.put_off = true
  return at
end

-- The number of available jobs under a limit that this call has read is written with all else of it.
local function limit_keeps(key, by)
  local limit = M.limits[key]
  if limit then limit.more = by end
  return limit
end

-- Writes what this call has changed of a limit.
local function limit_write(limit)
  local quota, fields = limit.quota, {nil, nil, nil, nil, nil, nil}
  if limit.dirty and quota.rate then
    local starts = shift > 0 and starts_moved(limit.starts, shift) or limit.starts
    fields[1], fields[2], fields[3], fields[4] = 'b', starts, 'sums', format('%d %d', limit.started, limit.entries)
  end
  if limit.dirty and quota.throttle then fields[#fields + 1], fields[#fields + 2] = 'next', throttle_text(limit.next, quota) end
  if limit.more then
    limit.available, limit.more = limit.available + limit.more, nil
    fields[#fields + 1], fields[#fields + 2] = 'n', int(limit.available)
  end
  if limit.put_off then
    local parts = {}
    for position, start in ipairs(limit.later) do parts[position] = int(start.last + shift) .. ',' .. int(start.count) .. ';' end
    fields[#fields + 1], fields[#fields + 2] = 'later', concat(parts)
    if quota.throttle then fields[#fields + 1], fields[#fields + 2] = 'turn', throttle_text(limit.turn, quota) end
  end
  if fields[1] then call('HSET', limit.name, unpack(fields)) end
  limit.dirty, limit.put_off = nil, nil
end

on_commit('limits', function()
  for _, limit in pairs(M.limits) do
    if limit.dirty or limit.more or limit.put_off then limit_write(limit) end
  end
end)

on_begin(function()
  lanes.keeps = limit_keeps
end)

M.limit_grows = limit_grows
M.limit_open = limit_open
M.limit_reserve = limit_reserve
M.limit_room = limit_room
M.limit_start = limit_start
M.starts_last = starts_last

return M
