-- Part: what tenants did lately, in buckets that go by themselves. Nothing of it remains of a tenant that has been idle for a day.
--
-- did:hH   hash  tenant → `enqueued pushes completed failed ms` of hour H since the epoch: jobs stored and the requests that brought them,
--                attempts that succeeded or failed, and for how long workers had its jobs; `*`: all of them
-- did:mM   hash  the same of minute M
-- busy:mM  zset  tenants of minute M by how much they did: a job counts one, and so does a second of a worker's
--
-- A call writes each once, however many jobs it holds. A job without a tenant is nobody's, and costs nothing here. Nothing is counted
-- where nobody wants to know, which is where `state.throttled` is missing.

local did

do -- a script has room for 200 locals

-- Longer than anybody reads a bucket for after it is full.
local HOUR_LIVES, MINUTE_LIVES = 26 * 3600000, 20 * 60000
-- Lua's stack holds 8,000 values, and a request may bring jobs of more tenants.
local PORTION = 2000
local PLACES = {enqueued = 1, pushes = 2, completed = 3, failed = 4, ms = 5}
local deeds

-- Takes over what was staged.
at_commit.take.did = function(tenant, what, by)
  local of_tenant = deeds[tenant]
  if not of_tenant then
    of_tenant = {0, 0, 0, 0, 0}
    deeds[tenant] = of_tenant
  end
  local place = PLACES[what]
  of_tenant[place] = of_tenant[place] + by
end

local function count_deed(tenant, what, by)
  if not tenant or tenant == '_default' or by <= 0 then return end
  at_commit.stage('did', tenant, what, by)
end

local function forget() end

at_begin(function()
  deeds = {}
  did = state.throttled and count_deed or forget
end)

-- Adds to a bucket; returns what it holds of the tenants then, as the arguments of a ZADD.
local function write(key, lives, names)
  local texts, written, busy = call('HMGET', key, unpack(names)), {}, {}
  for position, name in ipairs(names) do
    local e, p, c, f, w = match(texts[position] or '0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    local by = deeds[name]
    e, p, c, f, w = e + by[1], p + by[2], c + by[3], f + by[4], w + by[5]
    written[#written + 1], written[#written + 2] = name, format('%d %d %d %d %d', e, p, c, f, w)
    if name ~= '*' then busy[#busy + 1], busy[#busy + 2] = int(e + c + f + math.floor(w / 1000)), name end
  end
  call('HSET', key, unpack(written))
  if names[1] == '*' and not texts[1] then call('PEXPIRE', key, int(lives)) end
  return busy
end

local function write_all(names)
  local minute = 'm' .. int(math.floor(now / 60000))
  write(P .. 'did:h' .. int(math.floor(now / 3600000)), HOUR_LIVES, names)
  local busy = write(P .. 'did:' .. minute, MINUTE_LIVES, names)
  local key = P .. 'busy:' .. minute
  if #busy > 0 and call('ZADD', key, unpack(busy)) == #busy / 2 then call('PEXPIRE', key, int(MINUTE_LIVES)) end
end

-- Nothing that is written at the end does any deeds.
at_commit[#at_commit + 1] = function()
  if not next(deeds) then return end
  local names, all = {'*'}, {0, 0, 0, 0, 0}
  for _, by in pairs(deeds) do
    for place = 1, 5 do all[place] = all[place] + by[place] end
  end
  deeds['*'] = all
  for name in pairs(deeds) do
    if name ~= '*' then names[#names + 1] = name end
    if #names == PORTION then
      write_all(names)
      names = {}
    end
  end
  if #names > 0 then write_all(names) end
end

end
