-- Levels: the fair queues of tenants that take turns within one queue and priority.
--
-- Lanes of that priority without a tenant (`;t=`) stay in `ready:Q`, ordered by their first jobs.
-- Together they take part in the level as participant `*`, so neither side starves the other.
-- `dispatch/choose` lets `*` join and leave.
--
-- level:Q:pP          hash    a fair queue (`fairness/fair_queue`); s: version of the settings by
--                             which its tenants were weighed, with the cursor of a pass that is
--                             under way
-- level:Q:pP:lanes:T  zset    lanes of tenant T that may run, by the score of their first job
-- policy              hash    `f Q` or `f *`: sharing of queue Q, or of all queues
--                             (`commands/policy`)
-- policy:w:Q          hash    weights of tenants in thousandths; `policy:w:*` for all queues
-- promoted:Q          string  sum of the weights of the tenants for which a rule promoted recently,
--                             with a TTL

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local quotas = require('tenants/quotas')
local lanes = require('limits/lanes')
local fair_queue = require('fairness/fair_queue')
local fair_queue_write = require('fairness/fair_queue_write')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, int, memoize = runtime.on_begin, runtime.int, runtime.memoize
local lane_base, lane_score, clear_queue_live = lane_module.base, lane_module.score, lane_module.clear_queue_live
local set_queue_live = lane_module.set_queue_live
local max_concurrency, tenant_quota = quotas.max_concurrency, quotas.quota
local lane_level = lanes.lane_level
local fair_arrive, fair_open, tenant_of = fair_queue.arrive, fair_queue.open, fair_queue.tenant_of
local tenant_reweigh = fair_queue.tenant_reweigh
local fair_write = fair_queue_write.fair_write
local call = redis.call
local find, match = string.find, string.match

local sharing_weight

-- The participant for all lanes without a tenant. Names of tenants do not contain the character.
local NAMELESS = '*'

-- Sharing settings by queue, kept between calls as long as the version of the rules stays the same.
local MOST_KNOWN = 4096
local sharings, sharing_count, sharings_of = {}, 0, nil -- by queue; valid for one namespace and version

-- Without settings, only jobs whose lanes name their tenant because of isolation (`;b=`) take
-- turns.
local UNSET = {strategy = 'f', default = 1000, weights = nil, by_isolation = true}

local function sharing_read(queue)
  local own = call('HMGET', ctx.prefix .. 'policy', 'f ' .. queue, 'f *')
  local text = own[1] or own[2]
  if not text then return UNSET end
  local strategy, default, by_isolation = match(text, '^(%a) (%d+) ?(%a*)$')
  return strategy and {strategy = strategy, default = tonumber(default), weights = ctx.prefix .. 'policy:w:' .. (own[1] and queue or '*'),
    by_isolation = by_isolation ~= ''} or false
end

local is_shared -- whether the policy has sharing settings
local has_type_limits -- whether the policy has limits of types
-- True if there are neither such settings nor tenants with a limit on active jobs.
local is_unset

-- Returns how tenants share a queue, or false if they do not: strategy letter (f, r or s), default
-- weight, key of the weights, and `by_isolation`, true if only jobs whose lanes name their tenant
-- take turns.
local function queue_sharing(queue)
  if not is_shared then return UNSET end
  if sharings_of ~= ctx.prefix .. ctx.state.rules or sharing_count >= MOST_KNOWN then sharings, sharing_count, sharings_of = {}, 0, ctx.prefix .. ctx.state.rules end
  local sharing = sharings[queue]
  if sharing == nil then
    sharing = sharing_read(queue)
    sharings[queue], sharing_count = sharing, sharing_count + 1
  end
  return sharing
end

-- Limits of types in their order, as stored: in this call, and when `limit_of_type` was built.
local types, types_text, limit_of_type

-- Matches a type against a pattern, in which `*` matches any text, as `fits` in
-- src/domain/plan/rule.rs does.
local function fits(pattern, text)
  local head, rest = match(pattern, '^([^*]*)%*(.*)$')
  if not head then return pattern == text end
  if string.sub(text, 1, #head) ~= head then return false end
  local at = #head + 1
  while true do
    local part, more = match(rest, '^([^*]*)%*(.*)$')
    if not part then return #text - at + 1 >= #rest and string.sub(text, #text - #rest + 1) == rest end
    local first, last = find(text, part, at, true)
    if not first then return false end
    at, rest = last + 1, more
  end
end

-- Returns the key of the limit on a type, or '' if there is none. Remembered between calls.
local function type_key(type)
  if not types then
    types = call('HGET', ctx.prefix .. 'policy', 'types') or ''
    if types ~= types_text then types_text, limit_of_type = types, memoize(1024, function(name)
      for pattern, key in wire.each_pair(types_text) do
        if fits(pattern, name) then return key end
      end
      return ''
    end) end
  end
  return limit_of_type(type)
end

on_begin(function()
  types, is_shared, has_type_limits = nil, find(ctx.state.policy, '[fo]'), find(ctx.state.policy, 't', 1, true)
  is_unset = not is_shared and not find(ctx.tenant_limits, 'c', 1, true)
end)

-- Returns the lane for which a job was enqueued, adapted to the present limits of types.
local function type_lane(lane, type)
  if not has_type_limits and not find(lane, ';y=', 1, true) then return lane end
  local has = match(lane, ';y=([^;]+)') or ''
  local key = has_type_limits and type_key(type) or ''
  if key == has then return lane end
  lane = string.gsub(lane, ';y=[^;]+', '', 1)
  if key == '' then return lane end
  local head, rest = match(lane, '^(p%-?%d+;k=[^;]+)(.*)$')
  if not head then head, rest = match(lane, '^(p%-?%d+)(.*)$') end
  return head .. ';y=' .. key .. rest
end

-- Returns the lane in which a job waits now, given the lane for which it was enqueued.
local function tenant_lane(queue, lane, tenant, rule)
  if is_unset and not find(lane, ';', 1, true) then return lane end
  local sharing, owner, has_own = queue_sharing(queue), tenant or '_default', find(lane, ';b=', 1, true)
  if sharing and (has_own or not sharing.by_isolation) then
    return lane_base(lane) .. (sharing.strategy == 's' and ';s=1;t=' or ';t=') .. owner
  end
  if has_own then return lane end
  -- The lane names the tenant, so that blocked jobs are counted for the planner.
  return (rule and find(lane, ';', 1, true) or max_concurrency(owner)) and lane .. ';b=' .. owner or lane
end

-- Returns the weight of all lanes without a tenant: that of the default tenant, or of the tenants
-- for which jobs were promoted if that is more.
local function nameless_weight(queue)
  local own = sharing_weight(queue, '_default')
  return math.max(own, tonumber(call('GET', ctx.prefix .. 'promoted:' .. queue) or nil) or 0)
end

-- Returns a tenant's weight in a queue: that of the policy, of the plan rule that promoted the job,
-- of its own settings, or the default. The second result is the rule's weight if that applies.
sharing_weight = function(queue, tenant, rule)
  local sharing = queue_sharing(queue)
  if not sharing or sharing.strategy == 'r' then return 1000 end
  if tenant == NAMELESS then return nameless_weight(queue) end
  local own = sharing.weights and call('HGET', sharing.weights, tenant)
  local of_rule = not own and rule and call('HGET', ctx.prefix .. 'plan:' .. rule .. ':own', tenant)
  return math.max(tonumber(own or of_rule or nil) or tenant_quota(tenant).weight or sharing.default, 50), of_rule
end

local function level_flushed(fair, has_begun, has_ended)
  local ready = ctx.prefix .. 'ready:' .. fair.queue
  if has_begun then
    fair.sharing = ctx.state.rules
    call('HSET', fair.key, 's', fair.sharing)
    if not ctx.state.levels then
      call('HSET', ctx.prefix .. 'state', 'levels', '1')
      ctx.state.levels = '1'
    end
    -- Before the lanes of this priority without a tenant.
    call('ZADD', ready, int(lane_score(tonumber(string.sub(fair.level, 2)), 0)), '@' .. fair.level)
    set_queue_live(fair.queue)
  elseif has_ended then
    call('ZREM', ready, '@' .. fair.level)
    call('UNLINK', fair.key)
    if call('EXISTS', ready) == 0 then clear_queue_live(fair.queue) end
  end
end

local LEVELS = {counts = false, remember = function() end, flushed = level_flushed}

local function level_open(queue, level)
  local fair = fair_open(ctx.prefix .. 'level:' .. queue .. ':' .. level, LEVELS)
  fair.queue, fair.level = queue, level
  return fair
end

local function level_lanes(fair, tenant)
  return fair.key .. ':lanes:' .. tenant
end

local function level_enter(queue, lane, tenant, score, entry)
  local fair = level_open(queue, lane_level(lane))
  local added = call('ZADD', level_lanes(fair, tenant), 'LT', score, lane) == 1
  local waiting, has_slots = tenant_of(fair, tenant), added and find(lane, ';s=1', 1, true)
  if waiting.state and not has_slots then return added end
  local weight, of_rule = sharing_weight(queue, tenant, entry and entry.rule)
  -- A tenant with slots of its own has as many as its weight.
  if has_slots then
    local key = ctx.prefix .. 'limit:+' .. tenant .. ':' .. queue
    call('HSET', key, 'j', int(math.max(math.floor(weight / 1000), 1)) .. ' - - - -')
  end
  if not waiting.state then
    fair_arrive(fair, waiting, weight)
    if of_rule then waiting.asked = '1' end
  end
  return added
end

-- Recomputes the weights of waiting tenants after sharing settings changed; their lag stays the
-- same. A tenant with the weight of a plan rule keeps it, unless the policy names one now. A
-- portion per call: there may be a million tenants.
local REWEIGHED_PER_CALL = 256

local function level_reweigh(fair)
  local sharing, version = queue_sharing(fair.queue), ctx.state.rules
  if not sharing or fair.n == 0 or fair.sharing == version then return end
  -- `version cursor` until the pass is complete.
  local under, cursor = match(fair.sharing or '', '^(.*) (%d+)$')
  if under ~= version then cursor = '0' end
  local found = call('HSCAN', fair.key .. ':busy', cursor, 'COUNT', REWEIGHED_PER_CALL)
  for position = 1, #found[2], 2 do
    local name = found[2][position]
    local tenant = tenant_of(fair, name)
    local weight = sharing_weight(fair.queue, name)
    local keeps_rule_weight = tenant.asked == '1' and sharing.strategy ~= 'r'
      and not (sharing.weights and call('HEXISTS', sharing.weights, name) == 1)
    tenant_reweigh(fair, tenant, keeps_rule_weight and (tenant.otherwise or tenant.weight) or weight)
  end
  fair.sharing, fair.moved = found[1] == '0' and version or version .. ' ' .. found[1], true
  call('HSET', fair.key, 's', fair.sharing)
  fair_write(fair)
end

lanes.level_enter = level_enter

return {
  lanes = level_lanes,
  open = level_open,
  reweigh = level_reweigh,
  queue_sharing = queue_sharing,
  tenant_lane = tenant_lane,
  type_lane = type_lane,
  sharing_weight = sharing_weight,
}
