-- Promotes staged jobs to a main queue, by priority and then in fair order.
--
-- A target (`staging/builtin_target` or `staging/outbox_target`) has `release(queue, id, tenant)`,
-- which returns false if the job does not exist; `is_full()`, true if the call should end early;
-- and `push_released(queue, weight)`, which ends the call.
--
-- plan:R:lock  hash  last: `call id, promoted, jobs left` of the last call, to answer a resend
--                    (`commands/round_begin` has the other fields)
--
-- ARGV[9…]
--   rule       rule
--   token      token of the planner lock
--   queue      main queue
--   want       number of jobs
--   call_id    id of this call
--   is_resend  1 if this call is a resend
--   …          arguments of the target
--
-- Returns  {'ok', or 'more' if the call ended early, promoted, jobs left, a text of tenant, weight
--          and promoted jobs of each tenant}; a resend gets no such text. {'lost'} if the lock is
--          lost, or {'paused'}

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
local stop_waiting, sweep_departed, pick = pick_module.stop_waiting, pick_module.sweep_departed, pick_module.pick
local pick_open, serve = pick_module.open, pick_module.serve
local call = redis.call
local match = string.match

local function promote_run(target)
  local release, push_released, is_full = target.release, target.push_released, target.is_full
  local rule, token, queue, want, call_id, is_resend = unpack(ctx.args, 9, 14)
  want = tonumber(want)

  local lock = ctx.prefix .. 'plan:' .. rule .. ':lock'
  if call('HGET', lock, 'token') ~= token then return {'lost'} end
  if is_resend == '1' then
    local id, promoted, left = match(call('HGET', lock, 'last') or '', '^(%S+) (%d+) (%d+)$')
    if id == call_id then return {'ok', promoted, left} end
  end
  local plan = plan_open(rule)
  if not plan or plan.paused then return {'paused'} end

  local base = staging_open(rule, queue)
  if plan.strict and plan.jobs > 0 then want = math.min(want, plan.room) end
  if want == 0 or staging.waiting(base) == 0 then return {'ok', 0, base.jobs} end
  local fair -- the fair queue that is served now

  -- Ids of a tenant's jobs are read in portions that grow. A portion has one id more than may be
  -- needed, which shows whether the last job was reached. The first portion suffices if all tenants
  -- get the same number of jobs.
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

  -- Returns the number of a tenant's ids that were used.
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
      -- The job no longer exists. That does not cost the tenant its turn.
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
  local stick = staging.checks_blocked(plan)

  -- Promotes jobs of one priority, at most as many as are still wanted.
  local function promote_level(level)
    local before, left = promoted, want - promoted
    fair, levels[#levels + 1] = level, level
    first_portion = math.min(math.ceil(left / fair.n), 63)
    first_end = int(first_portion)
    pick_open(fair, left)
    while promoted < want and not is_full() do
      local tenant, window = pick(fair)
      if not tenant then break end
      if stick and staging.is_blocked(plan, queue, tenant.name) then
        stop_waiting(fair, tenant, window)
        tenant.state = 'b'
        call('SADD', fair.key .. ':stuck', tenant.name)
      elseif promote_next(tenant) then
        promoted = promoted + 1
        serve(fair, tenant, window, is_drained(tenant))
      else
        fair.owner.remember(fair, tenant)
        stop_waiting(fair, tenant, window)
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
  for _, level in ipairs(levels) do sweep_departed(level) end
  plan.added = plan.added - promoted
  if plan.room > 0 then plan.room, plan.spent = math.max(plan.room - promoted, 0), true end

  -- Workers have found the queue empty until now.
  local dry = call('HGET', ctx.prefix .. 'low', 'd ' .. queue)
  if dry and promoted > 0 then
    call('HINCRBY', plan.key, 'wasted', int(math.max(ctx.now - tonumber(dry), 0)))
    call('HDEL', ctx.prefix .. 'low', 'd ' .. queue)
  end
  call('HSET', lock, 'last', call_id .. ' ' .. promoted .. ' ' .. int(base.jobs))
  commit()
  return {said, promoted, base.jobs, wire.join_list(shares)}
end

return {run = promote_run}
