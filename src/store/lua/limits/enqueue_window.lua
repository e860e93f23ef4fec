-- The window of recent enqueues of a limited tenant, and the times of events about its limits.
-- `limits/enqueue_accounts` stores windows.
--
-- A window is `reported|depth|scheduled|started oldest|starts`:
-- reported          `limit ms,…`: time of the last event about each limit
-- depth, scheduled  `ms count added rate`: how fast that number of jobs decreases
-- started           enqueues within the period
-- oldest            last enqueue of the oldest bucket
-- starts            buckets of enqueues, `first,last,count;…`, the newest first. A bucket counts
--                   until one period after its *last* enqueue

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local quotas_module = require('tenants/quotas')
local runtime = require('lib/runtime')

local on_begin, int, memoize = runtime.on_begin, runtime.int, runtime.memoize
local tenant_waits = job_counts.tenant_waits
local TOLD_AGAIN_MS = quotas_module.REPORT_INTERVAL_MS
local byte, concat, find, format, match, sub = string.byte, table.concat, string.find, string.format, string.match, string.sub

local BUCKETS, MEASURE_MS, LONGEST_RETRY_MS = 16, 1000, 3600000
local bucket_texts -- by number of enqueues at this time: the text of their bucket
local now, now_text -- on the steady clock, as all times in windows

on_begin(function()
  if not find(ctx.tenant_limits, 'e', 1, true) then return end -- no tenant is limited
  now, now_text, bucket_texts = ctx.steady, int(ctx.steady), {}
end)

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
-- enqueues, or nil if the window must be opened. `text` is nil or false for a tenant without window.
-- Finds times by position, because pattern matching is slow; they have as many digits as the
-- current time.
local function window_text_after(text, period, number)
  local digits = #now_text
  if not text then return '|||' .. int(number) .. ' ' .. now_text .. bucket_now(number) end
  local space = find(text, ' ', 5, true)
  local bar = space + digits + 1
  local oldest, first = sub(text, space + 1, bar - 1), sub(text, bar + 1, bar + digits)
  if byte(text, bar) ~= 124 or oldest + period <= now then return nil end
  local beginning = sub(text, 1, space)
  beginning = number == 1 and one_more(beginning) or '|||' .. int(sub(beginning, 4) + number) .. ' '
  if now - first >= period / BUCKETS then return beginning .. oldest .. bucket_now(number) .. sub(text, bar + 1) end
  local count, older = match(text, NEWEST, bar + digits + 1)
  return beginning .. (older == '' and now_text or oldest) .. '|' .. first .. ',' .. now_text .. ',' .. int(count + number) .. ';' .. older
end

return {
  QUIET = QUIET,
  drain_ms = drain_ms,
  enqueues_add = enqueues_add,
  measure = window_measure,
  read = window_read,
  room_after_ms = room_after_ms,
  text = window_text,
  text_after = window_text_after,
}
