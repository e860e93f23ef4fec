-- Promotes staged jobs into the main queue: as many as wanted, by priority and then in the order that is fair now. Where they go is the business of
-- `own` or `forward`, whichever part the script is made with.
--
-- ARGV[9…] rule, token of the lock, queue, how many, call id, 1 if this call is sent again; then those of `forward`
-- Returns  {'ok', or 'more' if the call ended before all were promoted, promoted, jobs left, a text of tenant, weight, jobs of it promoted, …},
--          {'lost'} if the lock is another's, or {'paused'}; to a call that is sent again without the tenants

local ctx = require('lib/context')
local plan_module = require('staging/plan')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local stage = require('staging/stage')
local pick_module = require('fairness/pick')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, int = runtime.commit, runtime.int
local plan_open = plan_module.open
local weights = fair_queue.weights
local staging, staging_open = fair_queues.staging, fair_queues.open
local staging_lane = stage.staging_lane
local forgo, moments_sweep, pick = pick_module.forgo, pick_module.moments_sweep, pick_module.pick
local pick_open, serve = pick_module.open, pick_module.serve
local call = redis.call
local match = string.match

local function promote_run(target)
  local release, push_released, is_full = target.release, target.push_released, target.is_full
  local rule, token, queue, want = ctx.args[9], ctx.args[10], ctx.args[11], tonumber(ctx.args[12])

  local lock = ctx.prefix .. 'plan:' .. rule .. ':lock'
  if call('HGET', lock, 'token') ~= token then return {'lost'} end
  if ctx.args[14] == '1' then
    local id, promoted, left = match(call('HGET', lock, 'last') or '', '^(%S+) (%d+) (%d+)$')
    if id == ctx.args[13] then return {'ok', promoted, left} end
  end
  local plan = plan_open(rule)
  if not plan or plan.paused then return {'paused'} end

  local base = staging_open(rule, queue)
  if plan.strict and plan.jobs > 0 then want = math.min(want, plan.room) end
  if want == 0 or staging.waiting(base) == 0 then return {'ok', 0, base.jobs} end
  local fair -- of the priority that is served now

  -- Promotes a tenant's next job; false if it has none. Ids are read in portions that grow, one more than needed: that tells
  -- which is the last one. The first would do if all tenants got the same.
  local first_portion, first_end
  local served, lanes = {}, {}

  local function read_first(tenant)
    local lane, place = staging_lane(fair, tenant.name), #served + 1
    local ids = call('ZRANGE', lane, '0', first_end)
    local size = #ids
    served[place], lanes[place] = tenant, lane
    tenant.ids, tenant.at, tenant.last = ids, 1, size <= first_portion and size
    return ids
  end

  -- How many of a tenant's ids are out.
  local function taken_of(tenant)
    return (tenant.ids.before or 0) + tenant.at - 1
  end

  local function read_on(tenant)
    local taken = taken_of(tenant)
    local portion = math.min(taken * 4, 64)
    local ids = call('ZRANGE', staging_lane(fair, tenant.name), int(taken), int(taken + portion - 1))
    ids.before = taken
    tenant.ids, tenant.at, tenant.last = ids, 1, #ids < portion and #ids
    return ids
  end

  local function promote_next(tenant)
    local ids = tenant.ids or read_first(tenant)
    while true do
      local at = tenant.at
      local id = ids[at]
      if not id and not tenant.last then
        ids = read_on(tenant)
        at, id = 1, ids[1]
      end
      if not id then return false end
      tenant.at = at + 1
      if release(queue, id, tenant.name) then return true end
      -- An entry without a job: gone, and nobody's turn.
      tenant.gone = (tenant.gone or 0) + 1
      staging.count(fair, -1)
      plan.added = plan.added - 1
    end
  end

  local function is_drained(tenant)
    if tenant.last then return tenant.at > tenant.last end
    return not tenant.ids[tenant.at] and call('ZCARD', staging_lane(fair, tenant.name)) <= taken_of(tenant)
  end

  local promoted, levels = 0, {}
  local stick = staging.may_stick(plan)

  -- Promotes jobs of one priority: up to as many as are still wanted.
  local function promote_level(level)
    local before, left = promoted, want - promoted
    fair, levels[#levels + 1] = level, level
    first_portion = math.min(math.ceil(left / fair.n), 63)
    first_end = int(first_portion)
    pick_open(fair, left)
    while promoted < want and not is_full() do
      local tenant, window = pick(fair)
      if not tenant then break end
      if stick and staging.is_stuck(plan, queue, tenant.name) then
        forgo(fair, tenant, window)
        tenant.state = 'b'
        call('SADD', fair.key .. ':stuck', tenant.name)
      elseif promote_next(tenant) then
        promoted = promoted + 1
        serve(fair, tenant, window, is_drained(tenant))
      else
        fair.owner.remember(fair, tenant)
        forgo(fair, tenant, window)
      end
    end
    staging.count(fair, before - promoted)
  end

  for _, level in ipairs(staging.levels(base)) do
    if level.n > 0 and promoted < want and not is_full() then promote_level(level) end
  end
  push_released(queue, fair.had_w)
  local said, shares, empty = is_full() and 'more' or 'ok', {}, {}
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
  for first = 1, #empty, 4000 do call('UNLINK', unpack(empty, first, math.min(first + 3999, #empty))) end
  for _, level in ipairs(levels) do moments_sweep(level) end
  plan.added = plan.added - promoted
  if plan.room > 0 then plan.room, plan.spent = math.max(plan.room - promoted, 0), true end

  -- Workers that came away empty-handed have waited until now.
  local dry = call('HGET', ctx.prefix .. 'low', 'd ' .. queue)
  if dry and promoted > 0 then
    call('HINCRBY', plan.key, 'wasted', int(math.max(ctx.now - tonumber(dry), 0)))
    call('HDEL', ctx.prefix .. 'low', 'd ' .. queue)
  end
  call('HSET', lock, 'last', ctx.args[13] .. ' ' .. promoted .. ' ' .. int(base.jobs))
  commit()
  return {said, promoted, base.jobs, wire.join_list(shares)}
end

return {run = promote_run}
