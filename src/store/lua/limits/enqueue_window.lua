-- What limited tenants enqueued lately, and when they were told of a limit.
--
-- books:L:N  hash  tenant → `told|depth|scheduled|started oldest|starts`, in the N-th stretch of L ms, which is at least twice the
--                  tenant's period. told: `limit ms,…`, when which limit was last exceeded; depth and scheduled: `ms count added rate`, how
--                  fast that many jobs became fewer; started and starts: enqueues within the period, in all and as `first,last,count;…`, the
--                  newest first, where a bucket counts until the period after its *last* one is over; oldest: that of the oldest bucket
-- books:at   zset  `L:N` by when they are over
--
-- Whose book is not in the hash of this stretch has it in that of the stretch before, or has none: what is older says nothing any more.
-- So hashes go as a whole, and nobody looks for single books that are over. Who gets another period may begin with a new book.
--
-- Most books say no more than how many were enqueued. Those are not opened: an account tells for how many jobs its tenant is far from
-- every limit, and takes these in.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local quotas_module = require('tenants/quotas')
local runtime = require('lib/runtime')

local on_begin, int, on_commit, remembering = runtime.on_begin, runtime.int, runtime.on_commit, runtime.remembering
local send = runtime.send
local tenant_waits, tenants_load = job_counts.tenant_waits, job_counts.tenants_load
local TOLD_AGAIN_MS, tenant_quota = quotas_module.REPORT_INTERVAL_MS, quotas_module.quota
local tenants_open = quotas_module.tenants_open
local call = redis.call
local concat, find, format, match = table.concat, string.find, string.format, string.match

local M = {}

-- Accounts of this call are numbers. By number: whose it is, for how many jobs that are not for later that one is far from every limit,
-- and how many were taken in.
M.owners, M.rooms, M.entered = nil, nil, nil

local sub, byte = string.sub, string.byte
local BUCKETS, SEEN_MS, SHORTEST_MS = 16, 1000, 120000
local LONGEST_RETRY_MS, HUGE = 3600000, math.huge
-- Lua's stack holds 8,000 values.
local PORTION = 4000
local quotas, texts, books -- by number too: what the tenant is allowed, its book as it was read, its open book
local starts -- by number of jobs: the text of a bucket of so many that began and ended now
local now, now_text -- on the steady clock, in which all times of books are

on_begin(function()
  M.owners = {}
  if not find(ctx.allowed, 'e', 1, true) then return end -- nobody is limited
  now, now_text = ctx.steady, int(ctx.steady)
  M.rooms, M.entered = {}, {}
  quotas, texts, books, starts = {}, {}, {}, {}
end)

-- How long the stretch is in which a tenant's book is found; false if nothing limits what it enqueues. Kept with its quota.
local function stretch_of(quota)
  local stretch = (quota.rate or quota.depth or quota.scheduled) and SHORTEST_MS or false
  while stretch and stretch < (quota.period or 0) * 2 do stretch = stretch * 2 end
  quota.stretch = stretch
  return stretch
end

-- How fast something becomes fewer: jobs a second, measured from second to second and smoothed.
local function pace_read(text)
  local at, count, added, rate = match(text, '^(%d+) (%d+) (%d+) (%S+)$')
  if at then return {at = tonumber(at), count = tonumber(count), added = tonumber(added), rate = tonumber(rate)} end
end

local function pace_look(pace, count)
  if not pace then return {at = now, count = count, added = 0, rate = 0} end
  local passed = now - pace.at
  if passed >= SEEN_MS then
    local rate = math.max(pace.count + pace.added - count, 0) * 1000 / passed
    pace.at, pace.count, pace.added, pace.rate = now, count, 0, pace.rate > 0 and (pace.rate + rate) / 2 or rate
  end
  return pace
end

-- When so many jobs too many will be gone, in ms from now, as far as can be told.
local function pace_lasts(pace, surplus)
  if not pace or pace.rate <= 0 then return SEEN_MS end
  return math.min(math.max(math.ceil(surplus * 1000 / pace.rate), 1), LONGEST_RETRY_MS)
end

local function pace_text(pace)
  return pace and int(pace.at) .. ' ' .. int(pace.count) .. ' ' .. int(pace.added) .. ' ' .. format('%.6g', pace.rate) or ''
end

-- How a book begins in which nothing is told or measured, and what follows the beginning of its newest bucket.
local QUIET, NEWEST = '^|||%d+ ', '^,%d+,(%d+);(.*)$'
local BOOK = '^([^|]*)|([^|]*)|([^|]*)|[^|]*|?([^|]*)$'

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

-- Takes over the newest of some buckets and, as text, all others.
local function buckets_keep(book, buckets, started)
  local older = {}
  for place = 2, #buckets do older[place - 1] = bucket_text(buckets[place]) end
  book.newest, book.older, book.started = buckets[1], concat(older), started
  book.oldest = #buckets > 1 and buckets[#buckets].last or nil
end

local function book_read(name, text, quota)
  -- All fields that it may get: see `job_load`.
  local book = {name = name, quota = quota, told = nil, newest = nil, older = '', oldest = nil, started = 0, depth = nil,
    scheduled = nil, dirty = nil, asked = nil, waits = 0, later = 0, wanted = 0, wanted_later = 0}
  if not text then return book end
  local told, depth, scheduled, started = match(text, BOOK)
  if depth ~= '' then book.depth = pace_read(depth or '') end
  if scheduled ~= '' then book.scheduled = pace_read(scheduled or '') end
  for limit, at in string.gmatch(told or '', '(%S+) (%d+),') do
    if now - at < TOLD_AGAIN_MS then
      book.told = book.told or {}
      book.told[limit] = at
    end
  end
  if quota.period then buckets_keep(book, buckets_read(started or '', quota.period)) end
  return book
end

local function book_text(book)
  local told, newest = '', book.newest
  for limit, at in pairs(book.told or {}) do told = told .. limit .. ' ' .. at .. ',' end
  return told .. '|' .. pace_text(book.depth) .. '|' .. pace_text(book.scheduled) .. '|'
    .. (newest and int(book.started) .. ' ' .. (book.oldest or newest.last) .. '|' .. bucket_text(newest) .. book.older or '')
end

-- Enters enqueues of this moment.
local function starts_add(book, number)
  local newest = book.newest
  if newest and now - newest.first < book.quota.period / BUCKETS then
    newest.last, newest.count = now_text, newest.count + number
  else
    if newest then
      book.oldest = book.oldest or newest.last
      book.older = bucket_text(newest) .. book.older
    end
    book.newest = {first = now_text, last = now_text, count = number}
  end
  book.started, book.dirty = book.started + number, true
end

-- When the window will have room for so many.
local function starts_last(book, number)
  local left = book.started + number - book.quota.rate
  local buckets = book.newest and buckets_read(bucket_text(book.newest) .. book.older, book.quota.period) or {}
  for place = #buckets, 1, -1 do
    left = left - buckets[place].count
    if left <= 0 then return buckets[place].last + book.quota.period - now end
  end
  return book.quota.period
end

-- What the tenant has as of now. How fast that becomes less is measured from half of the limit on.
local function book_look(book)
  local quota = book.quota
  book.wanted, book.wanted_later = 0, 0
  book.waits, book.later = tenant_waits(book.name)
  book.depth = quota.depth and book.waits * 2 >= quota.depth and pace_look(book.depth, book.waits) or nil
  book.scheduled = quota.scheduled and book.later * 2 >= quota.scheduled and pace_look(book.scheduled, book.later) or nil
end

-- Opens the book of an account for the rest of the call.
local function book_open(account)
  local book = books[account]
  if not book then
    book = book_read(M.owners[account], texts[account], quotas[account])
    if M.entered[account] > 0 and book.quota.rate then starts_add(book, M.entered[account]) end
    books[account], M.rooms[account] = book, 0
  end
  return book
end

-- For how many jobs that are not for later nothing of a tenant is measured, told or refused, given its book.
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

-- Most tenants enqueue little, one job at a time: how their books begin then is remembered between calls.
local one_more = remembering(1000, function(beginning)
  return '|||' .. int(sub(beginning, 4) + 1) .. ' '
end)

-- What follows the end of the oldest bucket where so many jobs begin the newest one.
local function starts_text(number)
  local text = starts[number]
  if not text then
    text = '|' .. now_text .. ',' .. now_text .. ',' .. int(number) .. ';'
    starts[number] = text
  end
  return text
end

-- A quiet book with what its account has taken in. Times of as many digits as that of now are found by their places: matching is slow.
local function account_text(account, number)
  local text, period, digits = texts[account], quotas[account].period, #now_text
  if not text then return '|||' .. int(number) .. ' ' .. now_text .. starts_text(number) end
  local space = find(text, ' ', 5, true)
  local bar = space + digits + 1
  local oldest, first = sub(text, space + 1, bar - 1), sub(text, bar + 1, bar + digits)
  if byte(text, bar) ~= 124 or oldest + period <= now then return book_text(book_open(account)) end
  local beginning = sub(text, 1, space)
  beginning = number == 1 and one_more(beginning) or '|||' .. int(sub(beginning, 4) + number) .. ' '
  if now - first >= period / BUCKETS then return beginning .. oldest .. starts_text(number) .. sub(text, bar + 1) end
  local count, older = match(text, NEWEST, bar + digits + 1)
  return beginning .. (older == '' and now_text or oldest) .. '|' .. first .. ',' .. now_text .. ',' .. int(count + number) .. ';' .. older
end

-- The books of tenants in the N-th stretch of a length; false where there is none.
local function books_ask(names, length, turn)
  local key = ctx.prefix .. 'books:' .. int(length) .. ':' .. int(turn)
  if #names <= PORTION then return call('HMGET', key, unpack(names)) end
  local found = {}
  for first = 1, #names, PORTION do
    for _, text in ipairs(call('HMGET', key, unpack(names, first, math.min(first + PORTION - 1, #names)))) do found[#found + 1] = text end
  end
  return found
end

-- Reads the books of tenants whose stretches have a length, for accounts that follow each other from `first` on.
local function books_find(names, first, length)
  local turn, missing, people = math.floor(now / length), {}, {}
  local found = books_ask(names, length, turn)
  for place = 1, #names do
    local account, name, text = first + place - 1, names[place], found[place]
    local quota = quotas[account]
    if quota.stretch == length then
      if text then
        texts[account], M.rooms[account] = text, room_of(name, quota, text)
      else
        missing[#missing + 1], people[#people + 1] = account, name
      end
    end
  end
  if #missing == 0 then return end
  found = books_ask(people, length, turn - 1)
  for place = 1, #missing do
    local account, text = missing[place], found[place]
    texts[account], M.rooms[account] = text, room_of(people[place], quotas[account], text)
  end
end

-- Opens the accounts from `first` on, which have an owner alone, and reads all that they need at once.
local function books_open(first)
  local names, lengths, of_length = M.owners, {}, nil
  if first > 1 then
    names = {}
    for account = first, #M.owners do names[#names + 1] = M.owners[account] end
  end
  tenants_open(names)
  tenants_load(names)
  for place = 1, #names do
    local account, quota = first + place - 1, tenant_quota(names[place])
    local length = quota.stretch
    if length == nil then length = stretch_of(quota) end
    if length and length ~= of_length then lengths[length], of_length = true, length end
    quotas[account], M.entered[account], M.rooms[account] = quota, 0, HUGE
  end
  for length in pairs(lengths) do books_find(names, first, length) end
end

on_commit('enqueue_rates', function()
  if #M.owners == 0 then return end
  local groups, of_length, list = {}, nil, nil
  for account = 1, #M.owners do
    local book, quota, number = books[account], quotas[account], M.entered[account]
    local text
    if book then
      text = book.dirty and book_text(book)
    else
      text = number > 0 and quota.rate and account_text(account, number)
    end
    if text then
      if quota.stretch ~= of_length then
        of_length = quota.stretch
        list = groups[of_length] or {}
        groups[of_length] = list
      end
      local size = #list
      list[size + 1], list[size + 2] = M.owners[account], text
    end
  end
  for length, words in pairs(groups) do
    local turn = math.floor(now / length)
    local place = int(length) .. ':' .. int(turn)
    send('HSET', ctx.prefix .. 'books:' .. place, words)
    call('ZADD', ctx.prefix .. 'books:at', int((turn + 2) * length), place)
  end
end)

M.look = book_look
M.open = book_open
M.books_open = books_open
M.pace_lasts = pace_lasts
M.starts_add = starts_add
M.starts_last = starts_last

return M
