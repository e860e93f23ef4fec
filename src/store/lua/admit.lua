-- Part: what tenants may enqueue. A request is measured as a whole before anything of it is stored.

do -- a script has room for 200 locals

-- The account of jobs that have to be looked at one by one: those for later, and those that are not stored if their like is there.
local LOOKED_AT = 0
local quick -- by the further fields of a job: the account of its tenant, or of those to be looked at; false if nobody counts it
local taken, taken_size -- accounts of the jobs of the request that was measured last
local asked, soft -- its books and the soft limits that it exceeds, where it was looked at

at_begin(function()
  quick, taken, taken_size, asked, soft, rooms[LOOKED_AT] = {}, {}, 0, {}, nil, -1
end)

-- The tenant of a job among the arguments, nil if nobody counts it; and whether nothing else is said of the job.
local function tenant_in(more)
  local name, behind = match(more, '^tenant\31([^\31]*)\31()')
  if not name then
    name, behind = match(more, '^rule\31[^\31]*\31tenant\31([^\31]*)\31()')
  end
  if name and name ~= '_default' then return name, behind > #more end
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

-- Finds the accounts of so many jobs, and adds tenants that have none to a list of those who get the next ones.
local function note(list, first, jobs, words, names, size)
  for position = first + 5, first + jobs * words, words do
    local more = list[position]
    if quick[more] == nil then
      local name, is_bare = tenant_in(more)
      local account = name and accounts[name]
      if name and not account then
        size = size + 1
        account, names[#names + 1] = size, name
        accounts[name] = account
      end
      if not is_bare and (find(more, 'unique\31', 1, true) or account and find(more, 'due\31', 1, true)) then account = LOOKED_AT end
      quick[more] = account or false
    end
  end
  return size
end

-- Opens the accounts of all tenants that so many requests have jobs of, the first of which begins at `at`.
door.foresee = function(at, requests, words)
  local names, size = {}, 0
  for _ = 1, requests do
    local jobs = ARGV[at + 1] == '1' and 1 or tonumber(ARGV[at + 1])
    size = note(ARGV, at + 4, jobs, words, names, size)
    at = at + 4 + jobs * words
  end
  if size > 0 then books_open(names) end
end

-- Whether a request has no unique jobs and keeps so far from all limits that no book need be opened for it.
door.is_far = function(list, first, jobs, words)
  taken_size = 0
  for position = first + 5, first + jobs * words, words do
    local account = quick[list[position]]
    if account then
      if rooms[account] < jobs then return false end
      taken_size = taken_size + 1
      taken[taken_size] = account
    elseif account == nil then -- it was not foreseen
      local names = {}
      note(list, first, jobs, words, names, #entered)
      if #names > 0 then books_open(names) end
      return door.is_far(list, first, jobs, words)
    end
  end
  return true
end

-- Takes in the request of which that was asked last.
door.enter = function()
  for place = 1, taken_size do
    local account = taken[place]
    rooms[account], entered[account] = rooms[account] - 1, entered[account] + 1
  end
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
-- is there do not count.
door.admit = function(list, first, jobs, words)
  local request = {}
  asked, soft = request, nil
  settle()
  for index = 0, jobs - 1 do
    local more = list[first + index * words + 5]
    local name = tenant_in(more)
    if name and tenant_quota(name).stretch and not (door.existing and door.existing(more)) then
      local book = book_open(accounts[name])
      if book.asked ~= request then
        book.asked, request[#request + 1] = request, book
        book_look(book)
      end
      local limit, current, maximum, ms = book_ask(book, is_later(more))
      if limit and not book.quota.soft and not door.is_open then
        tell(book, limit, current, maximum, 'rejected')
        return concat({'limited', index, book.name, limit, int(current), int(maximum), int(ms)}, '\31')
      elseif limit then
        local exceeded = book.name .. '\31' .. limit
        soft = soft or {}
        soft[exceeded] = soft[exceeded] or {book, limit, current, maximum}
      end
    end
  end
  local exceeded = ''
  for name in pairs(soft or {}) do exceeded = exceeded .. '\31?\31' .. name end
  return nil, exceeded, enter
end

end
