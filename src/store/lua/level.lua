-- Part: tenants that take turns inside one queue and priority. Each such level is a fair queue like those of staging.
--
-- level:Q:pP          a fair queue: see `fair.lua`; and s, the version of the sharing under which its tenants were weighed
-- level:Q:pP:lanes:T  zset  the tenant's lanes that may run, by the score of their first job
-- policy              hash  `f Q` or `f *`: how tenants share queue Q, or all: `strategy default_weight`; see `policy.lua`
-- policy:w:Q          hash  weights by tenant, in thousandths; policy:w:* for all queues

local queue_sharing, sharing_weight, level_open, level_lanes, level_reweigh

do -- a script has room for 200 locals

-- How queues are shared does not change under one version of the sharing, so it is kept for many calls.
local MOST_KNOWN = 4096
local known, known_size, known_as = {}, 0, nil -- by queue; under which version, in which namespace
local version

at_begin(function()
  version = nil
end)

local function sharing_read(queue)
  local own = call('HMGET', P .. 'policy', 'f ' .. queue, 'f *')
  local strategy, default = match(own[1] or own[2] or '', '^(%a) (%d+)$')
  return strategy and {strategy = strategy, default = tonumber(default), weights = P .. 'policy:w:' .. (own[1] and queue or '*'),
    version = version} or false
end

-- How tenants share a queue: strategy letter (f, r or s), default weight and the hash of weights; false if they do not.
queue_sharing = function(queue)
  if not find(state.policy, 'f', 1, true) then return false end
  if not version then
    version = call('HGET', P .. 'policy', 'shares') or ''
    -- What has no version is from before there were any.
    if version == '' or known_as ~= P .. version or known_size >= MOST_KNOWN then
      known, known_size, known_as = {}, 0, P .. version
    end
  end
  local sharing = known[queue]
  if sharing == nil then
    sharing = sharing_read(queue)
    known[queue], known_size = sharing, known_size + 1
  end
  return sharing
end

tenant_lane = function(queue, lane, tenant, rule)
  local sharing, owner = queue_sharing(queue), tenant or '_default'
  if sharing then return lane_base(lane) .. (sharing.strategy == 's' and ';s=1;t=' or ';t=') .. owner end
  if find(lane, ';b=', 1, true) then return lane end
  -- A planner wants to know how many of a tenant's jobs are blocked.
  return (rule and find(lane, ';', 1, true) or tenant_capped(owner)) and lane .. ';b=' .. owner or lane
end

-- A tenant's weight in a queue: its own, that of the plan rule which promoted it, the one that it has everywhere, or the default;
-- and whether it is the rule's.
sharing_weight = function(queue, tenant, rule)
  local sharing = queue_sharing(queue)
  if not sharing or sharing.strategy == 'r' then return 1000 end
  local own = call('HGET', sharing.weights, tenant)
  local of_rule = not own and rule and call('HGET', P .. 'plan:' .. rule .. ':own', tenant)
  return math.max(tonumber(own or of_rule or nil) or tenant_quota(tenant).weight or sharing.default, 50), of_rule
end

local function level_flushed(fair, has_begun, has_ended)
  local ready = P .. 'ready:' .. fair.queue
  if has_begun then
    local sharing = queue_sharing(fair.queue)
    fair.sharing = sharing and sharing.version or ''
    call('HSET', fair.key, 's', fair.sharing)
    -- First of its priority: what waited there from before tenants took turns is found by looking behind it.
    call('ZADD', ready, int(lane_score(tonumber(string.sub(fair.level, 2)), 0)), '@' .. fair.level)
    queue_woke(fair.queue)
  elseif has_ended then
    call('ZREM', ready, '@' .. fair.level)
    call('UNLINK', fair.key)
    if call('EXISTS', ready) == 0 then queue_slept(fair.queue) end
  end
end

local LEVELS = {counts = false, remember = function() end, flushed = level_flushed}

level_open = function(queue, level)
  local fair = fair_open(P .. 'level:' .. queue .. ':' .. level, LEVELS)
  fair.queue, fair.level = queue, level
  return fair
end

level_lanes = function(fair, tenant)
  return fair.key .. ':lanes:' .. tenant
end

level_enter = function(queue, lane, tenant, score, entry)
  local fair = level_open(queue, lane_level(lane))
  local added = call('ZADD', level_lanes(fair, tenant), 'LT', score, lane) == 1
  local waiting = tenant_of(fair, tenant)
  if not waiting.state then
    local weight, of_rule = sharing_weight(queue, tenant, entry and entry.rule)
    -- Tenants with slots of their own have as many as their weight says.
    if find(lane, ';s=1', 1, true) then
      local key = P .. 'limit:tenant:' .. tenant .. ':queue:' .. queue
      call('HSET', key, 'j', int(math.max(math.floor(weight / 1000), 1)) .. ' - - - -')
    end
    fair_arrive(fair, waiting, weight)
    if of_rule then waiting.asked = '1' end
  end
  return added
end

-- Weighs waiting tenants anew where they share in another way than before; what they are ahead or behind stays the same. Whoever
-- has its weight of a plan rule keeps it, unless it has one of its own now. A portion a call: there may be a million of them.
local REWEIGHED_A_CALL = 256

level_reweigh = function(fair)
  local sharing = queue_sharing(fair.queue)
  if not sharing or fair.n == 0 or fair.sharing == sharing.version then return end
  -- `version cursor` while not all have been looked at.
  local under, cursor = match(fair.sharing or '', '^(.*) (%d+)$')
  if under ~= sharing.version then cursor = '0' end
  local found = call('HSCAN', fair.key .. ':busy', cursor, 'COUNT', REWEIGHED_A_CALL)
  for position = 1, #found[2], 2 do
    local name = found[2][position]
    local tenant = tenant_of(fair, name)
    local weight = sharing_weight(fair.queue, name)
    local is_rules = tenant.asked == '1' and sharing.strategy ~= 'r' and call('HEXISTS', sharing.weights, name) == 0
    tenant_reweigh(fair, tenant, is_rules and (tenant.otherwise or tenant.weight) or weight)
  end
  fair.sharing, fair.moved = found[1] == '0' and sharing.version or sharing.version .. ' ' .. found[1], true
  call('HSET', fair.key, 's', fair.sharing)
  fair_write(fair)
end

end
