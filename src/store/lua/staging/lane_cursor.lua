-- Reads the staged jobs of tenants during a promotion, and removes the promoted ones at its end.
--
-- F:lane:T  zset  staged jobs of tenant T (`fairness/fair_queue`)
--
-- Ids are read in portions that grow. A portion has one id more than may be needed, which shows if
-- the last job was reached. The first portion suffices if all tenants get the same number of jobs.
--
-- Fields of a tenant:
--   ids, at  the present portion, and the place of its next id; ids.before is the number of ids in
--            earlier portions
--   last     place of the last id, once that is known, else false
--   gone     number of ids whose jobs no longer existed

local fair_queue = require('fairness/fair_queue')
local stage = require('staging/stage')
local runtime = require('lib/runtime')

local int = runtime.int
local weights = fair_queue.weights
local staging_lane = stage.staging_lane
local call = redis.call

local MOST_FIRST, MOST_NEXT = 63, 64
-- Lua's stack holds 8,000 values.
local PORTION = 4000

local first_portion, first_end
local served, lanes -- tenants with ids that were read in this call, and the keys of their lanes

-- Begins a call.
local function begin()
  served, lanes = {}, {}
end

-- Sets the size of first portions, given how many jobs are shared by how many tenants.
local function share(jobs, tenants)
  first_portion = math.min(math.ceil(jobs / tenants), MOST_FIRST)
  first_end = int(first_portion)
end

local function read_first(fair, tenant)
  local lane, place = staging_lane(fair, tenant.name), #served + 1
  local ids = call('ZRANGE', lane, '0', first_end)
  local size = #ids
  served[place], lanes[place] = tenant, lane
  tenant.ids, tenant.at, tenant.last = ids, 1, size <= first_portion and size
  return ids
end

-- Returns the number of a tenant's ids that were taken.
local function taken_of(tenant)
  return (tenant.ids.before or 0) + tenant.at - 1
end

local function read_on(fair, tenant)
  local taken = taken_of(tenant)
  local portion = math.min(taken * 4, MOST_NEXT)
  local ids = call('ZRANGE', staging_lane(fair, tenant.name), int(taken), int(taken + portion - 1))
  ids.before = taken
  tenant.ids, tenant.at, tenant.last = ids, 1, #ids < portion and #ids
  return ids
end

-- Takes the next id of a tenant. Returns nil if there is none.
local function take(fair, tenant)
  local ids = tenant.ids or read_first(fair, tenant)
  local at = tenant.at
  local id = ids[at]
  if not id and not tenant.last then
    ids = read_on(fair, tenant)
    at, id = 1, ids[1]
  end
  if id then tenant.at = at + 1 end
  return id
end

-- Returns true if all ids of a tenant were taken.
local function is_drained(fair, tenant)
  if tenant.last then return tenant.at > tenant.last end
  return not tenant.ids[tenant.at] and call('ZCARD', staging_lane(fair, tenant.name)) <= taken_of(tenant)
end

-- Removes the ids that were taken. Returns name, weight and number of promoted jobs of each tenant.
local function close()
  local shares, empty = {}, {}
  for place = 1, #served do
    local tenant, lane = served[place], lanes[place]
    local taken, last = taken_of(tenant), tenant.last
    if last and tenant.at > last then
      empty[#empty + 1] = lane
    elseif taken > 0 then
      call('ZREMRANGEBYRANK', lane, '0', taken == 1 and '0' or int(taken - 1))
    end
    local size = place * 3
    shares[size - 2], shares[size - 1], shares[size] = tenant.name, weights.text(tenant.weight), int(taken - (tenant.gone or 0))
  end
  for first = 1, #empty, PORTION do call('UNLINK', unpack(empty, first, math.min(first + PORTION - 1, #empty))) end
  return shares
end

return {begin = begin, close = close, is_drained = is_drained, share = share, take = take}
