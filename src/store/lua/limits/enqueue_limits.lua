-- What tenants may enqueue. A request is measured as a whole before anything of it is stored.

local ctx = require('lib/context')
local quotas = require('tenants/quotas')
local existing = require('queue/unique').existing
local enqueue_window = require('limits/enqueue_window')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, int, settle = runtime.on_begin, runtime.int, runtime.settle
local tenant_exceeded, tenant_quota = quotas.emit_exceeded, quotas.quota
local book_look, book_open, books_open = enqueue_window.look, enqueue_window.open, enqueue_window.books_open
local pace_lasts, starts_add = enqueue_window.pace_lasts, enqueue_window.starts_add
local starts_last = enqueue_window.starts_last
local fields = wire.fields
local find = string.find

-- The account of jobs that have to be looked at one by one: those for later, and those that are not stored if their like is there.
local LOOKED_AT = 0
local quick -- by the further fields of a job: the account of its tenant, or of those to be looked at; false if nobody counts it
local taken, taken_size -- accounts of the jobs of the request that was taken in last
local asked, soft -- its books and the soft limits that it exceeds, where it was looked at

on_begin(function()
  taken_size = 0
  if not find(ctx.allowed, 'e', 1, true) then return end -- nobody is limited
  quick, taken, asked, soft, enqueue_window.rooms[LOOKED_AT] = {}, {}, {}, nil, -1
end)

-- The tenant of a job, given its further fields; nil if its jobs are not counted.
local function tenant_in(more)
  local name = fields(more).tenant
  if name and name ~= '_default' then return name end
  return find(ctx.allowed, 'd', 1, true) and '_default' or nil
end

-- The further fields of a job that names only its tenant: accounts are known by these.
local function bare(name)
  return wire.field('tenant', name)
end

-- Whether a job is for later.
local function is_later(more)
  local due = fields(more).due
  if not due or fields(more).pending then return false end
  if string.sub(due, 1, 1) == '+' then return tonumber(due) > 0 end
  return tonumber(due) > ctx.now
end

-- Finds the account of jobs with these further fields; a tenant that has none owns the next one.
local function note(more, size)
  local name = tenant_in(more)
  local known = name and bare(name)
  if known and not quick[known] then
    size = size + 1
    quick[known], enqueue_window.owners[size] = size, name
  end
  if more ~= known then
    local is_quick = not fields(more).unique and not (name and fields(more).due)
    quick[more] = is_quick and (known and quick[known] or false) or LOOKED_AT
  end
  return size
end

local function note_all(list, first, jobs, words, size)
  for position = first + 5, first + jobs * words, words do
    local more = list[position]
    if quick[more] == nil then size = note(more, size) end
  end
  return size
end

-- Opens the accounts of all tenants that so many requests have jobs of, the first of which begins at `at`.
local function foresee(at, requests, words)
  local size = 0
  for _ = 1, requests do
    local jobs = ctx.args[at + 1] == '1' and 1 or tonumber(ctx.args[at + 1])
    size = note_all(ctx.args, at + 4, jobs, words, size)
    at = at + 4 + jobs * words
  end
  if size > 0 then books_open(1) end
end

-- Gives back what was taken in last.
local function leave()
  for place = 1, taken_size do
    local account = taken[place]
    enqueue_window.rooms[account], enqueue_window.entered[account] = enqueue_window.rooms[account] + 1, enqueue_window.entered[account] - 1
  end
  taken_size = 0
end

-- Takes in a request that has no unique jobs and keeps so far from all limits that no book need be opened for it; false if it does not.
local function pass(list, first, jobs, words)
  taken_size = 0
  for position = first + 5, first + jobs * words, words do
    local account = quick[list[position]]
    if account == nil then -- it was not foreseen
      local size = #enqueue_window.owners
      if note_all(list, first, jobs, words, size) > size then books_open(size + 1) end
      account = quick[list[position]]
    end
    if account then
      local room = enqueue_window.rooms[account]
      if room < 1 then
        leave()
        return false
      end
      enqueue_window.rooms[account], enqueue_window.entered[account] = room - 1, enqueue_window.entered[account] + 1
      taken_size = taken_size + 1
      taken[taken_size] = account
    end
  end
  return true
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
  book.told[limit], book.dirty = int(ctx.steady), true
end

-- Takes into the books what was asked for.
local function enter()
  for _, book in ipairs(asked) do
    if book.quota.rate then starts_add(book, book.wanted) end
    if book.depth then book.depth.added = book.depth.added + book.wanted end
    if book.scheduled then book.scheduled.added = book.scheduled.added + book.wanted_later end
    if book.depth or book.scheduled then book.dirty = true end
  end
  for _, over in pairs(soft or {}) do tell(over[1], over[2], over[3], over[4], 'accepted') end
end

-- Measures a request that is not far from all limits, before anything of it is stored. Returns the answer if a limit refuses it; else
-- nil, the soft limits that it exceeds, and what takes it into the books once it is let in. Jobs that are not stored because their like
-- is there do not count. What is imported counts, but is not refused: its producer has its answer.
local function admit(list, first, jobs, words, is_import)
  local request = {}
  asked, soft = request, nil
  settle()
  for index = 0, jobs - 1 do
    local more = list[first + index * words + 5]
    local name = tenant_in(more)
    if name and tenant_quota(name).stretch and not existing(more) then
      local book = book_open(quick[bare(name)])
      if book.asked ~= request then
        book.asked, request[#request + 1] = request, book
        book_look(book)
      end
      local limit, current, maximum, ms = book_ask(book, is_later(more))
      if limit and not book.quota.soft and not is_import then
        tell(book, limit, current, maximum, 'rejected')
        return wire.join('limited', index, book.name, limit, int(current), int(maximum), int(ms))
      elseif limit then
        local exceeded = wire.join(book.name, limit)
        soft = soft or {}
        soft[exceeded] = soft[exceeded] or {book, limit, current, maximum}
      end
    end
  end
  local exceeded = ''
  for name in pairs(soft or {}) do exceeded = exceeded .. wire.join('', '?', name) end
  return nil, exceeded, enter
end

return {admit = admit, foresee = foresee, leave = leave, pass = pass}
