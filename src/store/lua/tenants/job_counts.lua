-- Counts jobs of tenants that have not ended.
--
-- tenants  hash  tenant → `pending available scheduled retryable active`; no field for a tenant
--                without jobs; `*` is the sum of all but the default tenant
--
-- Staged jobs count as available, so promotion changes no count; the size of their lanes is their
-- number. Jobs without a tenant belong to the default tenant, which is counted only once a limit
-- for it was set.

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local appliers, on_begin, defer, int = runtime.appliers, runtime.on_begin, runtime.defer, runtime.int
local apply_earlier, on_commit, send = runtime.apply_earlier, runtime.on_commit, runtime.send
local call = redis.call
local match = string.match

local POSITIONS = {pending = 1, available = 2, staged = 2, scheduled = 3, retryable = 4, active = 5}
local counts_default, has_changes
local changes -- by place in the text, then by tenant: changes of this call
local stored -- by tenant: its value in `tenants`

on_begin(function()
  counts_default, stored = string.find(ctx.tenant_limits, 'd', 1, true), {}
  if has_changes ~= false then has_changes, changes = false, {{}, {}, {}, {}, {}} end
end)

-- Returns the name under which a tenant's jobs are counted; false if they are not.
local function counted_name(tenant)
  if tenant and tenant ~= '_default' then return tenant end
  return counts_default and '_default' or false
end

local function count_tenant(tenant, state, by)
  local name = POSITIONS[state] and counted_name(tenant)
  if name then defer('count_tenant', name, POSITIONS[state], nil, nil, by, 0) end
end

local function add(tenant, place, by)
  local of_place = place and changes[place]
  if of_place then of_place[tenant], has_changes = (of_place[tenant] or 0) + by, true end
end

appliers.count_tenant = function(tenant, place, _, _, by)
  add(tenant, place, by)
end

-- Applies the count of stored jobs. Staged jobs are `pending` in the counts of their queue.
local function add_stored(queue, state, tenant, jobs)
  appliers.count(queue, state == 'staged' and 'pending' or state, nil, nil, jobs)
  local name = counted_name(tenant)
  if name then add(name, POSITIONS[state], jobs) end
end

-- Counts a change of state, for the queue and for the tenant.
local function count_move(queue, tenant, from, to)
  defer('move', queue, from, to, counted_name(tenant), 1, 0)
end

-- Counts the promotion of a staged job. Its tenant's counts do not change.
local function count_promoted(queue)
  defer('move', queue, 'pending', 'available', false, 1, 0)
end

appliers.move = function(queue, from, to, tenant, jobs)
  appliers.count(queue, from, nil, nil, -jobs)
  appliers.count(queue, to, nil, nil, jobs)
  if tenant then
    add(tenant, POSITIONS[from], -jobs)
    add(tenant, POSITIONS[to], jobs)
  end
end

-- Most tenants have few jobs and so the same texts. Results for such texts are remembered between
-- calls.
local NO_JOBS, SHORT, MOST_REMEMBERED = '0 0 0 0 0', 11, 4000
local PLACES = {'^()%d+()', '^%d+ ()%d+()', '^%d+ %d+ ()%d+()', '^%d+ %d+ %d+ ()%d+()', '^%d+ %d+ %d+ %d+ ()%d+()'}
local waiting, changed, remembered = {}, {}, 0

local function remember(known, text, value)
  if remembered == MOST_REMEMBERED then waiting, changed, remembered = {}, {}, 0 end
  known[text], remembered = value, remembered + 1
end

-- Returns the text with one number changed. A number never becomes negative, even if a count was
-- lost.
local function text_changed(text, place, by)
  local change = by * 8 + place
  local known = changed[change]
  local result = known and known[text]
  if result then return result end
  local first, behind = match(text, PLACES[place])
  if not first then return text_changed(NO_JOBS, place, by) end
  local number = tonumber(string.sub(text, first, behind - 1)) + by
  result = string.sub(text, 1, first - 1) .. int(number > 0 and number or 0) .. string.sub(text, behind)
  if #text > SHORT then return result end
  if not known then
    known = {}
    changed[change] = known
  end
  remember(known, text, result)
  return result
end

-- Names per HMGET: Lua's stack holds 8,000 values, and a request may bring jobs of more tenants.
local PORTION = 4000

local function tenants_read(names)
  for first = 1, #names, PORTION do
    local texts = call('HMGET', ctx.prefix .. 'tenants', unpack(names, first, math.min(first + PORTION - 1, #names)))
    for position = 1, #texts do stored[names[first + position - 1]] = texts[position] or NO_JOBS end
  end
end

-- Reads the jobs of tenants, all at once.
local function tenants_load(names)
  local unread = {}
  for position = 1, #names do
    local name = names[position]
    if not stored[name] then unread[#unread + 1] = name end
  end
  if #unread > 0 then tenants_read(unread) end
end

-- Returns how many jobs of a tenant wait, and how many of those are scheduled. Includes
-- changes by earlier items of this call.
local function tenant_waits(name)
  apply_earlier()
  local text = stored[name]
  if not text then
    tenants_read({name})
    text = stored[name]
  end
  local jobs = waiting[text]
  if not jobs then
    local p, a, s = match(text, '^(%d+) (%d+) (%d+) ')
    jobs = {(p or 0) + (a or 0) + (s or 0), tonumber(s) or 0}
    if #text <= SHORT then remember(waiting, text, jobs) end
  end
  if not has_changes then return jobs[1], jobs[2] end
  local later = changes[3][name] or 0
  return jobs[1] + (changes[1][name] or 0) + (changes[2][name] or 0) + later, jobs[2] + later
end

-- Returns the jobs of a tenant by state. Includes changes by earlier items of this call.
local function tenant_jobs(name)
  apply_earlier()
  tenants_load({name})
  local jobs = {match(stored[name], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')}
  for place = 1, 5 do jobs[place] = (jobs[place] or 0) + (changes[place][name] or 0) end
  return {pending = jobs[1], available = jobs[2], scheduled = jobs[3], retryable = jobs[4], active = jobs[5]}
end

on_commit('tallies', function()
  if not has_changes then return end
  local texts, unread, kept, gone = {}, {'*'}, {}, {}
  for place = 1, 5 do
    local all, of_place = 0, changes[place]
    for name, by in pairs(of_place) do
      if by ~= 0 and texts[name] == nil then
        texts[name] = stored[name] or false
        if not texts[name] then unread[#unread + 1] = name end
      end
      if name ~= '_default' then all = all + by end
    end
    of_place['*'] = all
  end
  if not next(texts) then return end
  tenants_read(unread)
  for place = 1, 5 do
    for name, by in pairs(changes[place]) do
      if by ~= 0 then texts[name] = text_changed(texts[name] or stored[name], place, by) end
    end
  end
  for name, text in pairs(texts) do
    if text == NO_JOBS then
      gone[#gone + 1] = name
    else
      kept[#kept + 1], kept[#kept + 2] = name, text
    end
  end
  changes, has_changes, stored = {{}, {}, {}, {}, {}}, false, {}
  send('HSET', ctx.prefix .. 'tenants', kept)
  send('HDEL', ctx.prefix .. 'tenants', gone)
end)

return {
  add_stored = add_stored,
  count_move = count_move,
  count_promoted = count_promoted,
  count_tenant = count_tenant,
  tenant_jobs = tenant_jobs,
  tenant_waits = tenant_waits,
  tenants_load = tenants_load,
}
