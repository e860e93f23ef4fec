-- Part: how many jobs tenants have.
--
-- tenants  hash  tenant → `pending available scheduled retryable active`, of whoever has jobs that have not ended; `*`: all of them
--
-- A job without a tenant is nobody's, and costs nothing here.

local tally

do -- a script has room for 200 locals

local LIVING = {pending = 1, available = 2, scheduled = 3, retryable = 4, active = 5}
-- Lua's stack holds 8,000 values, and a request may bring jobs of more tenants.
local PORTION = 2000
local tallies

at_begin(function()
  tallies = {}
end)

local function add(tenant, place, by)
  local of_tenant = tallies[tenant]
  if not of_tenant then
    of_tenant = {0, 0, 0, 0, 0}
    tallies[tenant] = of_tenant
  end
  of_tenant[place] = of_tenant[place] + by
end

tally = function(tenant, state, by)
  local place = tenant and tenant ~= '_default' and LIVING[state]
  if not place then return end
  stage(add, tenant, place, by)
end

local function write(names)
  local texts, kept, gone = call('HMGET', P .. 'tenants', unpack(names)), {}, {}
  for position, name in ipairs(names) do
    local by, jobs, some = tallies[name], {match(texts[position] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')}, false
    for place = 1, 5 do
      jobs[place] = math.max((tonumber(jobs[place]) or 0) + by[place], 0)
      some = some or jobs[place] > 0
    end
    if some then
      kept[#kept + 1], kept[#kept + 2] = name, format('%d %d %d %d %d', unpack(jobs))
    else
      gone[#gone + 1] = name
    end
  end
  if #kept > 0 then call('HSET', P .. 'tenants', unpack(kept)) end
  if #gone > 0 then call('HDEL', P .. 'tenants', unpack(gone)) end
end

at_close[#at_close + 1] = function()
  if not next(tallies) then return end
  local names, all = {'*'}, {0, 0, 0, 0, 0}
  for _, by in pairs(tallies) do
    for place = 1, 5 do all[place] = all[place] + by[place] end
  end
  tallies['*'] = all
  for name in pairs(tallies) do
    if name ~= '*' then names[#names + 1] = name end
    if #names == PORTION then
      write(names)
      names = {}
    end
  end
  if #names > 0 then write(names) end
end

end
