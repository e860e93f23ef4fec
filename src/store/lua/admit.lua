-- Part: what tenants may enqueue. A request is measured as a whole before anything of it is stored.
--
-- books     hash  tenant → `told|depth|scheduled|starts`, until `books:at`, a zset by when that says nothing any more. told: `limit ms,…`, when
--                 which limit was last exceeded; depth and scheduled: `ms count added rate`, how fast that many jobs became fewer; starts:
--                 enqueues within the period, `first,last,count;…`, where a bucket counts until the period after its *last* one is over

do -- a script has room for 200 locals

local BUCKETS, SEEN_MS, KEPT_MS = 16, 1000, 120000
local LONGEST_RETRY_MS = 3600000
local books, order

at_begin(function()
  books, order = {}, {}
end)

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

local function book_read(name, text, quota)
  -- All fields that it may get: see `job_load`.
  local book = {name = name, quota = quota, told = {}, starts = {}, started = 0, depth = nil, scheduled = nil, dirty = nil,
    renewed = not text, waits = 0, later = 0, wanted = 0, wanted_later = 0}
  if not text then return book end
  local told, depth, scheduled, starts = match(text, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
  if depth ~= '' then book.depth = pace_read(depth or '') end
  if scheduled ~= '' then book.scheduled = pace_read(scheduled or '') end
  for limit, at in string.gmatch(told or '', '(%S+) (%d+),') do
    if now - tonumber(at) < TOLD_AGAIN_MS then book.told[limit] = tonumber(at) end
  end
  for first, last, count in string.gmatch(starts or '', '(%d+),(%d+),(%d+);') do
    if quota.period and tonumber(last) + quota.period > now then
      book.starts[#book.starts + 1] = {first = tonumber(first), last = tonumber(last), count = tonumber(count)}
      book.started = book.started + tonumber(count)
    end
  end
  return book
end

local function book_text(book)
  local told, starts = {}, {}
  for limit, at in pairs(book.told) do told[#told + 1] = limit .. ' ' .. int(at) .. ',' end
  for place, start in ipairs(book.starts) do
    starts[place] = int(start.first) .. ',' .. int(start.last) .. ',' .. int(start.count) .. ';'
  end
  return concat(told) .. '|' .. pace_text(book.depth) .. '|' .. pace_text(book.scheduled) .. '|' .. concat(starts)
end

-- Opens the books of tenants that are limited, and reads how many jobs they have, all at once.
local function books_open(names)
  tenants_open(names)
  local new = {}
  for _, name in ipairs(names) do
    if books[name] == nil then
      local quota = tenant_quota(name)
      books[name] = false
      if quota.rate or quota.depth or quota.scheduled then new[#new + 1] = name end
    end
  end
  if #new == 0 then return end
  tenants_load(new)
  for place, text in ipairs(call('HMGET', P .. 'books', unpack(new))) do
    local name = new[place]
    books[name] = book_read(name, text, tenant_quota(name))
    order[#order + 1] = books[name]
  end
end

at_commit[#at_commit + 1] = function()
  local texts, ends = {}, {}
  for _, book in ipairs(order) do
    if book.dirty then
      texts[#texts + 1], texts[#texts + 2] = book.name, book_text(book)
      -- A bucket that only grows is kept long enough already.
      if book.renewed then ends[#ends + 1], ends[#ends + 2] = int(now + math.max((book.quota.period or 0) * 2, KEPT_MS)), book.name end
    end
  end
  if #texts == 0 then return end
  call('HSET', P .. 'books', unpack(texts))
  if #ends > 0 then call('ZADD', P .. 'books:at', unpack(ends)) end
end

local function start_add(book, number)
  local last = book.starts[#book.starts]
  if last and now - last.first < book.quota.period / BUCKETS then
    last.last, last.count = now, last.count + number
  else
    book.starts[#book.starts + 1] = {first = now, last = now, count = number}
    book.renewed = true
  end
  book.started = book.started + number
end

-- When the window will have room for so many.
local function starts_last(book, number)
  local left = book.started + number - book.quota.rate
  for _, start in ipairs(book.starts) do
    left = left - start.count
    if left <= 0 then return start.last + book.quota.period - now end
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
  if not book.told[limit] then tenant_exceeded(book.name, limit, current, maximum, action) end
  book.told[limit], book.dirty, book.renewed = now, true, true
end

-- Takes into the books what was asked for.
local function book_enter(book)
  if book.quota.rate then start_add(book, book.wanted) end
  if book.depth then book.depth.added = book.depth.added + book.wanted end
  if book.scheduled then book.scheduled.added = book.scheduled.added + book.wanted_later end
  if book.quota.rate or book.depth or book.scheduled then book.dirty = true end
end

-- Measures a request, before anything of it is stored. Returns the answer if a limit refuses it; else nil, the soft limits that it
-- exceeds, and what takes it into the books once it is let in. Jobs that are not stored because their like is there do not count.
door.admit = function(list, first, jobs, words)
  local asked, soft = {}, {}
  settle()
  for index = 0, jobs - 1 do
    local more = list[first + index * words + 5]
    local book = book_of(more)
    if book and not (door.existing and door.existing(more)) then
      if not asked[book] then
        asked[book] = true
        book_look(book)
      end
      local limit, current, maximum, ms = book_ask(book, is_later(more))
      if limit and not book.quota.soft and not door.is_open then
        tell(book, limit, current, maximum, 'rejected')
        return concat({'limited', index, book.name, limit, int(current), int(maximum), int(ms)}, '\31')
      elseif limit then
        local name = book.name .. '\31' .. limit
        soft[name] = soft[name] or {book, limit, current, maximum}
      end
    end
  end
  local exceeded = {}
  for name in pairs(soft) do exceeded[#exceeded + 1] = '\31?\31' .. name end
  return nil, concat(exceeded), function()
    for book in pairs(asked) do book_enter(book) end
    for _, over in pairs(soft) do tell(over[1], over[2], over[3], over[4], 'accepted') end
  end
end

end
