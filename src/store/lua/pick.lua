-- Part: who goes next. The earliest deadline among those whose start has come, in a fair queue that only this call moves.

local LEAVERS_A_PICK = 4

-- The first tenants of a sorted set, in memory; what moves is put back into its place here, and written at the end.
local function window_open(fair, set, size)
  local names = call('ZRANGE', fair.key .. set, 0, size - 1, 'WITHSCORES')
  local window = {set = set, size = size, at = 1, last = 0, complete = #names < size * 2}
  local unknown = {}
  for position = 1, #names, 2 do
    local tenant = fair.tenants[names[position]]
    if not tenant then
      tenant = {name = names[position]}
      fair.tenants[tenant.name] = tenant
      unknown[#unknown + 1] = tenant.name
    end
    tenant.start = tonumber(names[position + 1])
    window.last = window.last + 1
    window[window.last] = tenant
  end
  if #unknown > 0 then
    local busy = call('HMGET', fair.key .. ':busy', unpack(unknown))
    local left = set == ':leaving' and call('HMGET', fair.key .. ':left', unpack(unknown)) or {}
    for position, name in ipairs(unknown) do
      local tenant = fair.tenants[name]
      if busy[position] then tenant_read(tenant, busy[position]) end
      tenant.left = tonumber(left[position] or nil)
      tenant.was_left = tenant.left
    end
  end
  return window
end

-- The set's first tenant. When all that was read has moved on, what moved is written and the set read again.
local function window_head(fair, window)
  if window.at > window.last and not window.complete then
    fair_write(fair)
    local again = window_open(fair, window.set, window.size)
    for position = 1, again.last do window[position] = again[position] end
    window.at, window.last, window.complete = 1, again.last, again.complete
  end
  if window.at <= window.last then return window[window.at] end
end

-- Puts a tenant into its place, unless that is behind everything that was read: then it is found there later.
local function window_insert(window, tenant)
  local start, name = tenant.start, tenant.name
  local first, after = window.at, window.last + 1
  while first < after do
    local middle = math.floor((first + after) / 2)
    local other = window[middle]
    if other.start < start or (other.start == start and other.name < name) then first = middle + 1 else after = middle end
  end
  if first > window.last and not window.complete then return end
  table.insert(window, first, tenant)
  window.last = window.last + 1
end

local function pick_open(fair, want)
  local names = call('SMEMBERS', fair.key .. ':classes')
  fair.classes, fair.windows = {}, {}
  local size = math.max(16, math.ceil(want * 2 / math.max(#names, 1)))
  local empty = {}
  for _, name in ipairs(names) do
    local window = window_open(fair, ':c:' .. name, math.min(size, want + 1))
    if window.last > 0 then
      fair.classes[tonumber(name)] = true
      fair.windows[#fair.windows + 1] = window
    else
      empty[#empty + 1] = name
    end
  end
  if #empty > 0 then call('SREM', fair.key .. ':classes', unpack(empty)) end
  fair.leaving = window_open(fair, ':leaving', 32)
end

-- The tenant whose job goes next, and the window in which it stands first; nil if nobody waits.
local function pick(fair)
  local v = fair.v
  for _ = 1, 2 do
    local best, best_window, best_deadline, lowest
    for _, window in ipairs(fair.windows) do
      local tenant = window_head(fair, window)
      if tenant then
        if not lowest or tenant.start < lowest then lowest = tenant.start end
        if tenant.start <= v then
          local deadline = tenant.start + 1000 / tenant.weight
          if not best or deadline < best_deadline or (deadline == best_deadline and tenant.name < best.name) then
            best, best_window, best_deadline = tenant, window, deadline
          end
        end
      end
    end
    if best then return best, best_window end
    if not lowest then return nil end
    v = lowest
    fair.v = v
  end
end

-- One job moves the clock by 1/W, piecewise where leavers' starts lie on the way.
local function advance(fair)
  local rest = 1000
  for _ = 1, LEAVERS_A_PICK do
    local leaver = window_head(fair, fair.leaving)
    if not leaver or leaver.start > fair.v + rest / fair.w then break end
    fair.leaving.at = fair.leaving.at + 1
    if leaver.start > fair.v then
      rest = rest - (leaver.start - fair.v) * fair.w
      fair.v = leaver.start
    end
    fair.w = fair.w - leaver.left
    leaver.left = nil
    tenant_touch(fair, leaver)
    if fair.w == 0 then return end
  end
  fair.v = fair.v + math.max(rest, 0) / fair.w
end

-- The tenant at the head of a window has got one job promoted; `drained` says that it was its last.
local function serve(fair, tenant, window, drained)
  window.at = window.at + 1
  tenant.start = tenant.start + 1000 / tenant.weight
  tenant.promoted = tenant.promoted + 1
  if drained then
    fair.n = fair.n - 1
    tenant_remember(fair, tenant)
    tenant.left, tenant.state = tenant.weight, nil
    window_insert(fair.leaving, tenant)
  else
    window_insert(window, tenant)
  end
  tenant_touch(fair, tenant)
  fair.jobs, fair.moved = fair.jobs - 1, true
  advance(fair)
end
