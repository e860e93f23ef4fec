-- Enforces the limits on what tenants enqueue. A request is checked as a whole before any of its
-- jobs is stored.
--
-- Most requests are far from all limits. They are only counted against the room of their tenants'
-- accounts (`limits/enqueue_accounts`); only the others are checked in full.

local ctx = require('lib/context')
local quotas = require('tenants/quotas')
local existing = require('queue/unique').existing
local accounts = require('limits/enqueue_accounts')
local enqueue_window = require('limits/enqueue_window')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, int, apply_deferred = runtime.on_begin, runtime.int, runtime.apply_deferred
local tenant_exceeded, tenant_quota = quotas.emit_exceeded, quotas.quota
local accounts_open, window_open = accounts.open, accounts.window_open
local drain_ms, enqueues_add, room_after_ms = enqueue_window.drain_ms, enqueue_window.enqueues_add, enqueue_window.room_after_ms
local window_measure = enqueue_window.measure
local fields = wire.fields
local find = string.find

-- The account of jobs that must be checked in full: jobs for later, and unique jobs, which are not
-- stored if they have a duplicate. It never has room.
local IN_FULL = 0
-- By the further fields of a job: its account, or false if its tenant is not counted.
local account_of
local charged, charged_size -- accounts of the jobs of the request that was counted last
-- Of the request that was checked in full: its windows, and the soft limits that it exceeds.
local checked_windows, exceeded_soft

on_begin(function()
  charged_size = 0
  if not find(ctx.tenant_limits, 'e', 1, true) then return end -- no tenant is limited
  account_of, charged, checked_windows, exceeded_soft, accounts.rooms[IN_FULL] = {}, {}, {}, nil, -1
end)

-- Returns the tenant of a job, given its further fields; nil if its jobs are not counted.
local function tenant_in(more)
  local name = fields(more).tenant
  if name and name ~= '_default' then return name end
  return find(ctx.tenant_limits, 'd', 1, true) and '_default' or nil
end

-- Returns the further fields of a job that names only its tenant. Accounts are found by this text.
local function tenant_field(name)
  return wire.field('tenant', name)
end

-- Returns true if a job is scheduled for later.
local function is_later(more)
  local due = fields(more).due
  if not due or fields(more).pending then return false end
  if string.sub(due, 1, 1) == '+' then return tonumber(due) > 0 end
  return tonumber(due) > ctx.now
end

-- Finds the account of jobs with these further fields. A tenant without an account gets the next
-- number. Returns the number of accounts.
local function assign_account(more, size)
  local name = tenant_in(more)
  local known = name and tenant_field(name)
  if known and not account_of[known] then
    size = size + 1
    account_of[known], accounts.tenants[size] = size, name
  end
  if more ~= known then
    local has_account = not fields(more).unique and not (name and fields(more).due)
    account_of[more] = has_account and (known and account_of[known] or false) or IN_FULL
  end
  return size
end

local function assign_accounts(list, first, jobs, words, size)
  for position = first + 5, first + jobs * words, words do
    local more = list[position]
    if account_of[more] == nil then size = assign_account(more, size) end
  end
  return size
end

-- Opens the accounts of all tenants that have jobs in the `requests` requests from position `at`
-- on, so that they are read with as few commands as possible.
local function open_accounts(at, requests, words)
  local size = 0
  for _ = 1, requests do
    local jobs = ctx.args[at + 1] == '1' and 1 or tonumber(ctx.args[at + 1])
    size = assign_accounts(ctx.args, at + 4, jobs, words, size)
    at = at + 4 + jobs * words
  end
  if size > 0 then accounts_open(1) end
end

-- Reverts the count of the request that was counted last.
local function undo_count()
  for place = 1, charged_size do
    local account = charged[place]
    accounts.rooms[account], accounts.counted[account] = accounts.rooms[account] + 1, accounts.counted[account] - 1
  end
  charged_size = 0
end

-- Counts a request without full check. Returns false, without having counted anything, if one of
-- its jobs must be checked in full or its account has no room.
local function try_count(list, first, jobs, words)
  charged_size = 0
  for position = first + 5, first + jobs * words, words do
    local account = account_of[list[position]]
    if account == nil then -- not part of the requests whose accounts were opened
      local size = #accounts.tenants
      if assign_accounts(list, first, jobs, words, size) > size then accounts_open(size + 1) end
      account = account_of[list[position]]
    end
    if account then
      local room = accounts.rooms[account]
      if room < 1 then
        undo_count()
        return false
      end
      accounts.rooms[account], accounts.counted[account] = room - 1, accounts.counted[account] + 1
      charged_size = charged_size + 1
      charged[charged_size] = account
    end
  end
  return true
end

-- Adds one job to those that the request brings. If it exceeds a limit, returns the first such
-- limit: name, current number, maximum, and ms until there may be room.
local function window_exceeded(window, later)
  local quota, wanted = window.quota, window.wanted + 1
  window.wanted = wanted
  if later then window.wanted_later = window.wanted_later + 1 end
  if quota.rate and window.started + wanted > quota.rate then
    return 'max_enqueue_rate', window.started, quota.rate, room_after_ms(window, wanted)
  end
  if quota.depth and window.waits + wanted > quota.depth then
    return 'max_queue_depth', window.waits, quota.depth, drain_ms(window.depth, window.waits + wanted - quota.depth)
  end
  if later and quota.scheduled and window.later + window.wanted_later > quota.scheduled then
    return 'max_scheduled', window.later, quota.scheduled, drain_ms(window.scheduled, window.later + window.wanted_later - quota.scheduled)
  end
end

local function report(window, limit, current, maximum, action)
  window.reported = window.reported or {}
  if not window.reported[limit] then tenant_exceeded(window.name, limit, current, maximum, action) end
  window.reported[limit], window.dirty = int(ctx.steady), true
end

-- Adds the request to its windows. Must not be called before the request is certain to be stored.
local function record()
  for _, window in ipairs(checked_windows) do
    if window.quota.rate then enqueues_add(window, window.wanted) end
    if window.depth then window.depth.added = window.depth.added + window.wanted end
    if window.scheduled then window.scheduled.added = window.scheduled.added + window.wanted_later end
    if window.depth or window.scheduled then window.dirty = true end
  end
  for _, over in pairs(exceeded_soft or {}) do report(over[1], over[2], over[3], over[4], 'accepted') end
end

-- Checks a request in full. Returns the result that refuses it; or nil, the soft limits that it
-- exceeds, and the function that counts the request once it is certain to be stored. A unique job
-- with a duplicate is not stored and does not count. An import counts but is never refused, because
-- its producer already has a response.
local function check(list, first, jobs, words, is_import)
  local request = {}
  checked_windows, exceeded_soft = request, nil
  apply_deferred()
  for index = 0, jobs - 1 do
    local more = list[first + index * words + 5]
    local name = tenant_in(more)
    if name and tenant_quota(name).interval and not existing(more) then
      local window = window_open(account_of[tenant_field(name)])
      if window.request ~= request then
        window.request, request[#request + 1] = request, window
        window_measure(window)
      end
      local limit, current, maximum, ms = window_exceeded(window, is_later(more))
      if limit and not window.quota.soft and not is_import then
        report(window, limit, current, maximum, 'rejected')
        return wire.join('limited', index, window.name, limit, int(current), int(maximum), int(ms))
      elseif limit then
        local exceeded = wire.join(window.name, limit)
        exceeded_soft = exceeded_soft or {}
        exceeded_soft[exceeded] = exceeded_soft[exceeded] or {window, limit, current, maximum}
      end
    end
  end
  local exceeded = ''
  for name in pairs(exceeded_soft or {}) do exceeded = exceeded .. wire.join('', '?', name) end
  return nil, exceeded, record
end

return {check = check, open_accounts = open_accounts, undo_count = undo_count, try_count = try_count}
