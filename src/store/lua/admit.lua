-- Part: what tenants may enqueue. A request is measured as a whole before anything of it is stored.
--
-- books:L:N  hash  tenant → `told|depth|scheduled|started oldest|starts`, in the N-th stretch of L ms, which is at least twice the
--                  tenant's period. told: `limit ms,…`, when which limit was last exceeded; depth and scheduled: `ms count added rate`, how
--                  fast that many jobs became fewer; started and starts: enqueues within the period, in all and as `first,last,count;…`, the
--                  newest first, where a bucket counts until the period after its *last* one is over; oldest: that of the oldest bucket
-- books:at   zset  `L:N` by when they are over
--
-- Whose book is not in the hash of this stretch has it in that of the stretch before, or has none: what is older says nothing any more.
-- So hashes go as a whole, and nobody looks for single books that are over. Who gets another period may begin with a new book.

do -- a script has room for 200 locals

local BUCKETS, SEEN_MS, SHORTEST_MS = 16, 1000, 120000
local LONGEST_RETRY_MS = 3600000
-- Lua's stack holds 8,000 values.
local PORTION = 4000
local books, order, asked, soft

at_begin(function()
  books, order, asked, soft = {}, {}, {}, nil
end)

local function stretch_of(quota)
  if not quota.stretch then
    quota.stretch = SHORTEST_MS
    while quota.stretch < (quota.period or 0) * 2 do quota.stretch = quota.stretch * 2 end
  end
  return quota.stretch
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

-- A book in which nothing is told or measured.
local QUIET = '^|||(%d+) (%d+)|(%d+),(%d+),(%d+);(.*)$'
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
  local started, oldest, first, last, count, older = match(text, QUIET)
  if started and quota.period and oldest + quota.period > now then
    book.newest, book.older, book.started = {first = first, last = last, count = tonumber(count)}, older, tonumber(started)
    book.oldest = older ~= '' and oldest or nil
    return book
  end
  local told, depth, scheduled, starts = match(text, BOOK)
  if depth ~= '' then book.depth = pace_read(depth or '') end
  if scheduled ~= '' then book.scheduled = pace_read(scheduled or '') end
  for limit, at in string.gmatch(told or '', '(%S+) (%d+),') do
    if now - at < TOLD_AGAIN_MS then
      book.told = book.told or {}
      book.told[limit] = at
    end
  end
  if quota.period then buckets_keep(book, buckets_read(starts or '', quota.period)) end
  return book
end

local function book_text(book)
  local told, newest = '', book.newest
  for limit, at in pairs(book.told or {}) do told = told .. limit .. ' ' .. at .. ',' end
  return told .. '|' .. pace_text(book.depth) .. '|' .. pace_text(book.scheduled) .. '|'
    .. (newest and int(book.started) .. ' ' .. (book.oldest or newest.last) .. '|' .. bucket_text(newest) .. book.older or '')
end

-- Reads the books of tenants in a stretch; the text of each, or false.
local function books_find(names, length, turn)
  local texts, key = {}, P .. 'books:' .. int(length) .. ':' .. int(turn)
  for first = 1, #names, PORTION do
    for place, text in ipairs(call('HMGET', key, unpack(names, first, math.min(first + PORTION - 1, #names)))) do
      texts[first + place - 1] = text
    end
  end
  return texts
end

-- Opens the books of tenants that are limited, and reads how many jobs they have, all at once.
local function books_open(names)
  tenants_open(names)
  local new, by_length = {}, {}
  for _, name in ipairs(names) do
    if books[name] == nil then
      local quota = tenant_quota(name)
      books[name] = false
      if quota.rate or quota.depth or quota.scheduled then
        local length = stretch_of(quota)
        local list = by_length[length] or {}
        by_length[length], list[#list + 1], new[#new + 1] = list, name, name
      end
    end
  end
  if #new == 0 then return end
  tenants_load(new)
  local function take(name, text)
    books[name] = book_read(name, text, tenant_quota(name))
    order[#order + 1] = books[name]
  end
  for length, list in pairs(by_length) do
    local turn, missing = math.floor(now / length), {}
    for place, text in ipairs(books_find(list, length, turn)) do
      if text then take(list[place], text) else missing[#missing + 1] = list[place] end
    end
    for place, text in ipairs(books_find(missing, length, turn - 1)) do take(missing[place], text) end
  end
end

at_commit[#at_commit + 1] = function()
  local by_length = {}
  for _, book in ipairs(order) do
    if book.dirty then
      local length = stretch_of(book.quota)
      local texts = by_length[length] or {}
      by_length[length], texts[#texts + 1], texts[#texts + 2] = texts, book.name, book_text(book)
    end
  end
  for length, texts in pairs(by_length) do
    local turn = math.floor(now / length)
    local place = int(length) .. ':' .. int(turn)
    send('HSET', P .. 'books:' .. place, texts)
    call('ZADD', P .. 'books:at', int((turn + 2) * length), place)
  end
end

local function start_add(book, number)
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
  book.started = book.started + number
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

-- The tenant of a job among the arguments; nil if nobody counts it.
local function tenant_in(more)
  local name = match(more, '^tenant\31([^\31]*)\31') or match(more, '^rule\31[^\31]*\31tenant\31([^\31]*)\31')
  if name and name ~= '_default' then return name end
  return find(allowed, 'd', 1, true) and '_default' or nil
end

-- Whether a job is for later.
local function is_later(more)
  if not find(more, 'due\31', 1, true) then return false end
  local sign, at = match(more, '\31due\31(%+?)(%-?%d+)\31')
  if not at then
    sign, at = match(more, '^due\31(%+?)(%-?%d+)\31')
  end
  if not at or find(more, '\31pending\0311\31', 1, true) or find(more, '^pending\0311\31') then return false end
  return sign == '+' and tonumber(at) > 0 or sign == '' and tonumber(at) > now
end

-- Opens the books of all tenants that so many requests have jobs of, the first of which begins at `at`.
door.foresee = function(at, requests, words)
  local names, seen = {}, {}
  for _ = 1, requests do
    local jobs = tonumber(ARGV[at + 1])
    for position = at + 4, at + 3 + jobs * words, words do
      local name = tenant_in(ARGV[position + 5])
      if name and not seen[name] then seen[name], names[#names + 1] = true, name end
    end
    at = at + 4 + jobs * words
  end
  if #names > 0 then books_open(names) end
end

-- The book of a job's tenant, if that is limited.
local function book_of(more)
  local name = tenant_in(more)
  if not name then return false end
  if books[name] == nil then books_open({name}) end
  return books[name]
end

-- What the tenant has as of now. How fast that becomes less is measured from half of the limit on.
local function book_look(book)
  local quota = book.quota
  book.wanted, book.wanted_later = 0, 0
  book.waits, book.later = tenant_waits(book.name)
  book.depth = quota.depth and book.waits * 2 >= quota.depth and pace_look(book.depth, book.waits) or nil
  book.scheduled = quota.scheduled and book.later * 2 >= quota.scheduled and pace_look(book.scheduled, book.later) or nil
end

-- Asks for one more job. The first limit that it exceeds: its name, what there is, what is allowed, and when there may be room.
local function book_ask(book, later)
  local quota, wanted = book.quota, book.wanted + 1
  book.wanted = wanted
  if later then book.wanted_later = book.wanted_later + 1 end
  if quota.rate and book.started + wanted > quota.rate then
    return 'max_enqueue_rate', book.started, quota.rate, starts_last(book, wanted)
  end
  if quota.depth and book.waits + wanted > quota.depth then
    return 'max_queue_depth', book.waits, quota.depth, pace_lasts(book.depth, book.waits + wanted - quota.depth)
  end
  if later and quota.scheduled and book.later + book.wanted_later > quota.scheduled then
    return 'max_scheduled', book.later, quota.scheduled, pace_lasts(book.scheduled, book.later + book.wanted_later - quota.scheduled)
  end
end

local function tell(book, limit, current, maximum, action)
  book.told = book.told or {}
  if not book.told[limit] then tenant_exceeded(book.name, limit, current, maximum, action) end
  book.told[limit], book.dirty = now_text, true
end

-- Takes into the books what was asked for.
local function book_enter(book)
  if book.quota.rate then start_add(book, book.wanted) end
  if book.depth then book.depth.added = book.depth.added + book.wanted end
  if book.scheduled then book.scheduled.added = book.scheduled.added + book.wanted_later end
  if book.quota.rate or book.depth or book.scheduled then book.dirty = true end
end

-- Takes into the books what the request that was measured last asked for.
local function enter()
  for _, book in ipairs(asked) do book_enter(book) end
  for _, over in pairs(soft or {}) do tell(over[1], over[2], over[3], over[4], 'accepted') end
end

-- Measures a request, before anything of it is stored. Returns the answer if a limit refuses it; else nil, the soft limits that it
-- exceeds, and what takes it into the books once it is let in. Jobs that are not stored because their like is there do not count.
door.admit = function(list, first, jobs, words)
  local request = {}
  asked, soft = request, nil
  settle()
  for index = 0, jobs - 1 do
    local more = list[first + index * words + 5]
    local book = book_of(more)
    if book and not (door.existing and door.existing(more)) then
      if book.asked ~= request then
        book.asked, request[#request + 1] = request, book
        book_look(book)
      end
      local limit, current, maximum, ms = book_ask(book, is_later(more))
      if limit and not book.quota.soft and not door.is_open then
        tell(book, limit, current, maximum, 'rejected')
        return concat({'limited', index, book.name, limit, int(current), int(maximum), int(ms)}, '\31')
      elseif limit then
        local name = book.name .. '\31' .. limit
        soft = soft or {}
        soft[name] = soft[name] or {book, limit, current, maximum}
      end
    end
  end
  local exceeded = ''
  for name in pairs(soft or {}) do exceeded = exceeded .. '\31?\31' .. name end
  return nil, exceeded, enter
end

end
