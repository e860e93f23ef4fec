-- Part: tenants that take turns inside one queue and priority. Each such level is a fair queue like those of staging.
--
-- level:Q:pP          a fair queue: see `fair.lua`
-- level:Q:pP:lanes:T  zset  the tenant's lanes that may run, by the score of their first job
-- policy              hash  `f Q` or `f *`: how tenants share queue Q, or all: `strategy default_weight`; see `policy.lua`
-- policy:w:Q          hash  weights by tenant, in thousandths; policy:w:* for all queues

local sharings = {}

-- How tenants share a queue: strategy letter (f, r or s), default weight and the hash of weights; false if they do not.
local function queue_sharing(queue)
  local sharing = sharings[queue]
  if sharing == nil then
    sharing = false
    if find(state[7] or '', 'f', 1, true) then
      local own = call('HMGET', P .. 'policy', 'f ' .. queue, 'f *')
      local strategy, default = match(own[1] or own[2] or '', '^(%a) (%d+)$')
      if strategy then
        sharing = {strategy = strategy, default = tonumber(default), weights = P .. 'policy:w:' .. (own[1] and queue or '*')}
      end
    end
    sharings[queue] = sharing
  end
  return sharing
end

tenant_lane = function(queue, lane, tenant, rule)
  local sharing = queue_sharing(queue)
  if not sharing then return rule and find(lane, ';', 1, true) and lane .. ';b=' .. tenant or lane end
  return lane .. (sharing.strategy == 's' and ';s=1;t=' or ';t=') .. (tenant or '_default')
end

-- A tenant's weight in a queue: its own, that of the plan rule which promoted it, or the default.
local function sharing_weight(queue, tenant, rule)
  local sharing = queue_sharing(queue)
  if not sharing or sharing.strategy == 'r' then return 1000 end
  local own = call('HGET', sharing.weights, tenant) or rule and call('HGET', P .. 'plan:' .. rule .. ':own', tenant)
  return math.max(tonumber(own or nil) or sharing.default, 50)
end

local function level_flushed(fair, has_begun, has_ended)
  local ready = P .. 'ready:' .. fair.queue
  if has_begun then
    -- First of its priority: what waited there from before tenants took turns is found by looking behind it.
    call('ZADD', ready, int(lane_score(tonumber(string.sub(fair.level, 2)), 0)), '@' .. fair.level)
    queue_woke(fair.queue)
  elseif has_ended then
    call('ZREM', ready, '@' .. fair.level)
    call('UNLINK', fair.key)
    if call('EXISTS', ready) == 0 then queue_slept(fair.queue) end
  end
end

local LEVELS = {remember = function() end, flushed = level_flushed}

local function level_open(queue, level)
  local fair = fair_open(P .. 'level:' .. queue .. ':' .. level, LEVELS)
  fair.queue, fair.level = queue, level
  return fair
end

local function level_lanes(fair, tenant)
  return fair.key .. ':lanes:' .. tenant
end

level_enter = function(queue, lane, tenant, score, entry)
  local fair = level_open(queue, lane_level(lane))
  local added = call('ZADD', level_lanes(fair, tenant), 'LT', score, lane) == 1
  local waiting = tenant_of(fair, tenant)
  if not waiting.state then
    local weight = sharing_weight(queue, tenant, entry and entry.rule)
    -- Tenants with slots of their own have as many as their weight says.
    if find(lane, ';s=1', 1, true) then
      local key = P .. 'limit:tenant:' .. tenant .. ':queue:' .. queue
      call('HSET', key, 'j', int(math.max(math.floor(weight / 1000), 1)) .. ' - - - -')
    end
    fair_arrive(fair, waiting, weight)
  end
  return added
end
