-- Recent enqueues of limited tenants, and the times of events about their limits.
--
-- key        type  meaning
-- books:L:N  hash  tenant → window, in the N-th interval of L ms; L is at least twice the period
-- books:at   zset  `L:N` by the time at which the hash can be removed
--
-- A window is `reported|depth|scheduled|started oldest|starts`:
-- reported          `limit ms,…`: time of the last event about each limit
-- depth, scheduled  `ms count added rate`: how fast that number of jobs decreases
-- started           enqueues within the period
-- oldest            last enqueue of the oldest bucket
-- starts            buckets of enqueues, `first,last,count;…`, the newest first. A bucket counts
--                   until one period after its *last* enqueue
--
-- A window that is not in the hash of the current interval is in that of the previous interval, or
-- does not exist: older entries have no effect any more. So hashes are removed as a whole, and no
-- single window is ever searched for and removed. A tenant whose period changes may start with an
-- empty window.
--
-- In most calls, a window changes only by the number of enqueues. Such windows are never opened
-- (decoded): the tenant's account has a number of jobs, its room, up to which no limit is near.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local quotas_module = require('tenants/quotas')
local runtime = require('lib/runtime')

local on_begin, int, on_commit, memoize = runtime.on_begin, runtime.int, runtime.on_commit, runtime.memoize
local send = runtime.send
local tenant_waits, tenants_load = job_counts.tenant_waits, job_counts.tenants_load
local TOLD_AGAIN_MS, tenant_quota = quotas_module.TOLD_AGAIN_MS, quotas_module.quota
local tenants_open = quotas_module.tenants_open
local call = redis.call
local concat, find, format, match = table.concat, string.find, string.format, string.match

local M = {}

-- An account is the number of a tenant in this call. By account: the tenant; its room, which is the
-- number of jobs, not for later, up to which no limit is near; the number of jobs counted so far.
M.tenants, M.rooms, M.counted = nil, nil, nil

local sub, byte = string.sub, string.byte
local BUCKETS, MEASURE_MS, SHORTEST_MS = 16, 1000, 120000
local LONGEST_RETRY_MS, HUGE = 3600000, math.huge
-- Lua's stack holds 8,000 values.
local PORTION = 4000
local quotas, texts, windows -- by account: the tenant's quota, its window as text, its open window
local bucket_texts -- by number of enqueues at this time: the text of their bucket
local now, now_text -- on the steady clock, as all times in windows

on_begin(function()
  M.tenants = {}
  if not find(ctx.allowed, 'e', 1, true) then return end -- no tenant is limited
  now, now_text = ctx.steady, int(ctx.steady)
  M.rooms, M.counted = {}, {}
  quotas, texts, windows, bucket_texts = {}, {}, {}, {}
end)

-- Returns the length of the interval in whose hash a tenant's window is; false if nothing limits
-- what the tenant enqueues. Caches it in the quota.
local function interval_of(quota)
  local interval = (quota.rate or quota.depth or quota.scheduled) and SHORTEST_MS or false
  while interval and interval < (quota.period or 0) * 2 do interval = interval * 2 end
  quota.interval = interval
  return interval
end

-- Decodes how fast a number of jobs decreases: jobs per second, measured at most once a second and
-- smoothed.
local function drain_read(text)
  local at, count, added, rate = match(text, '^(%d+) (%d+) (%d+) (%S+)$')
  if at then return {at = tonumber(at), count = tonumber(count), added = tonumber(added), rate = tonumber(rate)} end
end

local function drain_measure(drain, count)
  if not drain then return {at = now, count = count, added = 0, rate = 0} end
  local passed = now - drain.at
  if passed >= MEASURE_MS then
    local rate = math.max(drain.count + drain.added - count, 0) * 1000 / passed
    drain.at, drain.count, drain.added, drain.rate = now, count, 0, drain.rate > 0 and (drain.rate + rate) / 2 or rate
  end
  return drain
end

-- Returns an estimate of the ms until `surplus` jobs are gone.
local function drain_ms(drain, surplus)
  if not drain or drain.rate <= 0 then return MEASURE_MS end
  return math.min(math.max(math.ceil(surplus * 1000 / drain.rate), 1), LONGEST_RETRY_MS)
end

local function drain_text(drain)
  return drain and int(drain.at) .. ' ' .. int(drain.count) .. ' ' .. int(drain.added) .. ' ' .. format('%.6g', drain.rate) or ''
end

-- QUIET matches the beginning of a window without reported limits and measured rates. NEWEST
-- matches what follows the first enqueue of its newest bucket.
local QUIET, NEWEST = '^|||%d+ ', '^,%d+,(%d+);(.*)$'
local WINDOW = '^([^|]*)|([^|]*)|([^|]*)|[^|]*|?([^|]*)$'

local function buckets_read(text, period)
  local buckets, started = {}, 0
  for first, last, count in string.gmatch(text, '(%d+),(%d+),(%d+);') do
    if last + period > now then
      buckets[#buckets + 1] = {first = first, last = last, count = tonumber(count)}
      started = started + count
    end
  end
  return buckets, started
end

local function bucket_text(bucket)
  return bucket.first .. ',' .. bucket.last .. ',' .. int(bucket.count) .. ';'
end

-- Sets the newest of some buckets and, as text, all others.
local function buckets_keep(window, buckets, started)
  local older = {}
  for place = 2, #buckets do older[place - 1] = bucket_text(buckets[place]) end
  window.newest, window.older, window.started = buckets[1], concat(older), started
  window.oldest = #buckets > 1 and buckets[#buckets].last or nil
end

local function window_read(name, text, quota)
  -- One constructor with all fields (`lib/record`).
  local window = {name = name, quota = quota, reported = nil, newest = nil, older = '', oldest = nil, started = 0, depth = nil,
    scheduled = nil, dirty = nil, request = nil, waits = 0, later = 0, wanted = 0, wanted_later = 0}
  if not text then return window end
  local reported, depth, scheduled, started = match(text, WINDOW)
  if depth ~= '' then window.depth = drain_read(depth or '') end
  if scheduled ~= '' then window.scheduled = drain_read(scheduled or '') end
  for limit, at in string.gmatch(reported or '', '(%S+) (%d+),') do
    if now - at < TOLD_AGAIN_MS then
      window.reported = window.reported or {}
      window.reported[limit] = at
    end
  end
  if quota.period then buckets_keep(window, buckets_read(started or '', quota.period)) end
  return window
end

local function window_text(window)
  local reported, newest = '', window.newest
  for limit, at in pairs(window.reported or {}) do reported = reported .. limit .. ' ' .. at .. ',' end
  return reported .. '|' .. drain_text(window.depth) .. '|' .. drain_text(window.scheduled) .. '|'
    .. (newest and int(window.started) .. ' ' .. (window.oldest or newest.last) .. '|' .. bucket_text(newest) .. window.older or '')
end

-- Counts enqueues at the present time.
local function enqueues_add(window, number)
  local newest = window.newest
  if newest and now - newest.first < window.quota.period / BUCKETS then
    newest.last, newest.count = now_text, newest.count + number
  else
    if newest then
      window.oldest = window.oldest or newest.last
      window.older = bucket_text(newest) .. window.older
    end
    window.newest = {first = now_text, last = now_text, count = number}
  end
  window.started, window.dirty = window.started + number, true
end

-- Returns the ms until the window has room for `number` more jobs.
local function room_after_ms(window, number)
  local left = window.started + number - window.quota.rate
  local buckets = window.newest and buckets_read(bucket_text(window.newest) .. window.older, window.quota.period) or {}
  for place = #buckets, 1, -1 do
    left = left - buckets[place].count
    if left <= 0 then return buckets[place].last + window.quota.period - now end
  end
  return window.quota.period
end

-- Reads the tenant's current number of jobs. Measures how fast it decreases from half of a limit
-- on.
local function window_measure(window)
  local quota = window.quota
  window.wanted, window.wanted_later = 0, 0
  window.waits, window.later = tenant_waits(window.name)
  window.depth = quota.depth and window.waits * 2 >= quota.depth and drain_measure(window.depth, window.waits) or nil
  window.scheduled = quota.scheduled and window.later * 2 >= quota.scheduled and drain_measure(window.scheduled, window.later) or nil
end

-- Opens the window of an account for the rest of the call.
local function window_open(account)
  local window = windows[account]
  if not window then
    window = window_read(M.tenants[account], texts[account], quotas[account])
    if M.counted[account] > 0 and window.quota.rate then enqueues_add(window, M.counted[account]) end
    windows[account], M.rooms[account] = window, 0
  end
  return window
end

-- Returns the number of jobs, not for later, that a tenant can enqueue without coming near a limit:
-- nothing must be measured, reported or refused for them. Returns 0 if the window must be opened.
local function room_of(name, quota, text)
  local rate, depth, scheduled = quota.rate, quota.depth, quota.scheduled
  local room = rate or HUGE
  if text then
    local _, space = find(text, QUIET)
    if not space then return 0 end
    if rate then room = rate - sub(text, 4, space - 1) end
  end
  if depth or scheduled then
    local waits, later = tenant_waits(name)
    if scheduled and later * 2 >= scheduled then return 0 end
    local half = depth and depth / 2 - waits or room
    if half < room then return half end
  end
  return room
end

-- Most tenants enqueue seldom and one job at a time, so the resulting beginnings of their windows
-- are cached.
local one_more = memoize(1000, function(beginning)
  return '|||' .. int(sub(beginning, 4) + 1) .. ' '
end)

-- Returns what follows `oldest` in a window whose newest bucket has `number` enqueues at this time.
local function bucket_now(number)
  local text = bucket_texts[number]
  if not text then
    text = '|' .. now_text .. ',' .. now_text .. ',' .. int(number) .. ';'
    bucket_texts[number] = text
  end
  return text
end

-- Returns the text of a window without reported limits and measured rates after `number` more
-- enqueues. Finds times by position, because pattern matching is slow; they have as many digits as
-- the current time.
local function account_text(account, number)
  local text, period, digits = texts[account], quotas[account].period, #now_text
  if not text then return '|||' .. int(number) .. ' ' .. now_text .. bucket_now(number) end
  local space = find(text, ' ', 5, true)
  local bar = space + digits + 1
  local oldest, first = sub(text, space + 1, bar - 1), sub(text, bar + 1, bar + digits)
  if byte(text, bar) ~= 124 or oldest + period <= now then return window_text(window_open(account)) end
  local beginning = sub(text, 1, space)
  beginning = number == 1 and one_more(beginning) or '|||' .. int(sub(beginning, 4) + number) .. ' '
  if now - first >= period / BUCKETS then return beginning .. oldest .. bucket_now(number) .. sub(text, bar + 1) end
  local count, older = match(text, NEWEST, bar + digits + 1)
  return beginning .. (older == '' and now_text or oldest) .. '|' .. first .. ',' .. now_text .. ',' .. int(count + number) .. ';' .. older
end

-- Returns the windows of tenants in the N-th interval of a length; false for each that is missing.
local function windows_read(names, length, number)
  local key = ctx.prefix .. 'books:' .. int(length) .. ':' .. int(number)
  if #names <= PORTION then return call('HMGET', key, unpack(names)) end
  local found = {}
  for first = 1, #names, PORTION do
    for _, text in ipairs(call('HMGET', key, unpack(names, first, math.min(first + PORTION - 1, #names)))) do found[#found + 1] = text end
  end
  return found
end

-- Reads the windows of the tenants with this interval length. `names` are the tenants of
-- consecutive accounts from `first` on.
local function windows_load(names, first, length)
  local number, missing, missing_tenants = math.floor(now / length), {}, {}
  local found = windows_read(names, length, number)
  for place = 1, #names do
    local account, name, text = first + place - 1, names[place], found[place]
    local quota = quotas[account]
    if quota.interval == length then
      if text then
        texts[account], M.rooms[account] = text, room_of(name, quota, text)
      else
        missing[#missing + 1], missing_tenants[#missing_tenants + 1] = account, name
      end
    end
  end
  if #missing == 0 then return end
  found = windows_read(missing_tenants, length, number - 1)
  for place = 1, #missing do
    local account, text = missing[place], found[place]
    texts[account], M.rooms[account] = text, room_of(missing_tenants[place], quotas[account], text)
  end
end

-- Opens the accounts from `first` on, whose tenants are already set, with as few commands as
-- possible.
local function accounts_open(first)
  local names, lengths, of_length = M.tenants, {}, nil
  if first > 1 then
    names = {}
    for account = first, #M.tenants do names[#names + 1] = M.tenants[account] end
  end
  tenants_open(names)
  tenants_load(names)
  for place = 1, #names do
    local account, quota = first + place - 1, tenant_quota(names[place])
    local length = quota.interval
    if length == nil then length = interval_of(quota) end
    if length and length ~= of_length then lengths[length], of_length = true, length end
    quotas[account], M.counted[account], M.rooms[account] = quota, 0, HUGE
  end
  for length in pairs(lengths) do windows_load(names, first, length) end
end

on_commit('enqueue_rates', function()
  if #M.tenants == 0 then return end
  local groups, of_length, list = {}, nil, nil
  for account = 1, #M.tenants do
    local window, quota, number = windows[account], quotas[account], M.counted[account]
    local text
    if window then
      text = window.dirty and window_text(window)
    else
      text = number > 0 and quota.rate and account_text(account, number)
    end
    if text then
      if quota.interval ~= of_length then
        of_length = quota.interval
        list = groups[of_length] or {}
        groups[of_length] = list
      end
      local size = #list
      list[size + 1], list[size + 2] = M.tenants[account], text
    end
  end
  for length, words in pairs(groups) do
    local number = math.floor(now / length)
    local place = int(length) .. ':' .. int(number)
    send('HSET', ctx.prefix .. 'books:' .. place, words)
    call('ZADD', ctx.prefix .. 'books:at', int((number + 2) * length), place)
  end
end)

M.measure = window_measure
M.open = window_open
M.accounts_open = accounts_open
M.drain_ms = drain_ms
M.enqueues_add = enqueues_add
M.room_after_ms = room_after_ms

return M
