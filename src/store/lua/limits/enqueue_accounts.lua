-- Counts the enqueues of limited tenants, and stores their windows (`limits/enqueue_window`).
--
-- key        type  meaning
-- enqueues:L:N  hash  tenant → window, in the N-th interval of L ms; L is at least twice the period
-- enqueues:at   zset  `L:N` by the time at which the hash can be removed
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
local enqueue_window = require('limits/enqueue_window')
local runtime = require('lib/runtime')

local on_begin, int, on_commit, send = runtime.on_begin, runtime.int, runtime.on_commit, runtime.send
local tenant_waits, tenants_load = job_counts.tenant_waits, job_counts.tenants_load
local tenant_quota, tenants_open = quotas_module.quota, quotas_module.tenants_open
local QUIET, enqueues_add, window_read = enqueue_window.QUIET, enqueue_window.enqueues_add, enqueue_window.read
local window_text, window_text_after = enqueue_window.text, enqueue_window.text_after
local call = redis.call
local find, sub = string.find, string.sub

local M = {}

-- An account is the number of a tenant in this call. By account: the tenant; its room, which is the
-- number of jobs, not for later, up to which no limit is near; the number of jobs counted so far.
M.tenants, M.rooms, M.counted = nil, nil, nil

local SHORTEST_MS, HUGE = 120000, math.huge
-- Lua's stack holds 8,000 values.
local PORTION = 4000
local quotas, texts, windows -- by account: the tenant's quota, its window as text, its open window
local now -- on the steady clock, as all times in windows

on_begin(function()
  M.tenants = {}
  if not find(ctx.tenant_limits, 'e', 1, true) then return end -- no tenant is limited
  now = ctx.steady
  M.rooms, M.counted = {}, {}
  quotas, texts, windows = {}, {}, {}
end)

-- Returns the length of the interval in whose hash a tenant's window is; false if nothing limits
-- what the tenant enqueues. Caches it in the quota.
local function interval_of(quota)
  local interval = (quota.rate or quota.depth or quota.scheduled) and SHORTEST_MS or false
  while interval and interval < (quota.period or 0) * 2 do interval = interval * 2 end
  quota.interval = interval
  return interval
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

-- Returns the windows of tenants in the N-th interval of a length; false for each that is missing.
local function windows_read(names, length, number)
  local key = ctx.prefix .. 'enqueues:' .. int(length) .. ':' .. int(number)
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
      text = number > 0 and quota.rate and (window_text_after(texts[account], quota.period, number) or window_text(window_open(account)))
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
    send('HSET', ctx.prefix .. 'enqueues:' .. place, words)
    call('ZADD', ctx.prefix .. 'enqueues:at', int((number + 2) * length), place)
  end
end)

M.open = accounts_open
M.window_open = window_open

return M
