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
local fair_queues = require('staging/fair_queues')
local lane_cursor = require('staging/lane_cursor')
local pick_module = require('fairness/pick')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, int = runtime.commit, runtime.int
local plan_open = plan_module.open
local staging, staging_open = fair_queues.staging, fair_queues.open
local take, is_drained = lane_cursor.take, lane_cursor.is_drained
local stop_waiting, sweep_departed, pick = pick_module.stop_waiting, pick_module.sweep_departed, pick_module.pick
local pick_open, serve = pick_module.open, pick_module.serve
local call = redis.call
local match = string.match

local release, is_full -- functions of the target
local plan, queue, want, promoted, checks_blocked -- of this call

-- Promotes a tenant's next job. Returns false if it has none.
local function promote_next(fair, tenant)
  while true do
    local id = take(fair, tenant)
    if not id then return false end
    if release(queue, id, tenant.name) then return true end
    -- The job no longer exists. That does not cost the tenant its turn.
    tenant.gone = (tenant.gone or 0) + 1
    staging.count(fair, -1)
    plan.added = plan.added - 1
  end
end

-- Promotes jobs of one priority, at most as many as are still wanted.
local function promote_level(fair)
  local before, left = promoted, want - promoted
  lane_cursor.share(left, fair.n)
  pick_open(fair, left)
  while promoted < want and not is_full() do
    local tenant, window = pick(fair)
    if not tenant then break end
    if checks_blocked and staging.is_blocked(plan, queue, tenant.name) then
      stop_waiting(fair, tenant, window)
      tenant.state = 'b'
      call('SADD', fair.key .. ':stuck', tenant.name)
    elseif promote_next(fair, tenant) then
      promoted = promoted + 1
      serve(fair, tenant, window, is_drained(fair, tenant))
    else
      fair.owner.remember(fair, tenant)
      stop_waiting(fair, tenant, window)
    end
  end
  staging.count(fair, before - promoted)
end

-- Adds the time in which workers have found the queue empty, which ends now, to the rule's waste.
local function add_waste()
  local dry = call('HGET', ctx.prefix .. 'low_water', 'dry ' .. queue)
  if dry and promoted > 0 then
    call('HINCRBY', plan.key, 'wasted', int(math.max(ctx.now - tonumber(dry), 0)))
    call('HDEL', ctx.prefix .. 'low_water', 'dry ' .. queue)
  end
end

local function promote_run(target)
  local rule, token, main, number, call_id, is_resend = unpack(ctx.args, 9, 14)
  local lock = ctx.prefix .. 'plan:' .. rule .. ':lock'
  if call('HGET', lock, 'token') ~= token then return {'lost'} end
  if is_resend == '1' then
    local id, done, left = match(call('HGET', lock, 'last') or '', '^(%S+) (%d+) (%d+)$')
    if id == call_id then return {'ok', done, left} end
  end
  release, is_full = target.release, target.is_full
  plan, queue, want, promoted = plan_open(rule), main, tonumber(number), 0
  if not plan or plan.paused then return {'paused'} end

  local base = staging_open(rule, queue)
  if plan.strict and plan.jobs > 0 then want = math.min(want, plan.room) end
  if want == 0 or staging.waiting(base) == 0 then return {'ok', 0, base.jobs} end

  local levels = {}
  checks_blocked = staging.checks_blocked(plan)
  lane_cursor.begin()
  for _, level in ipairs(staging.levels(base)) do
    if level.n > 0 and promoted < want and not is_full() then
      levels[#levels + 1] = level
      promote_level(level)
    end
  end
  target.push_released(queue, levels[#levels].had_w)
  local outcome, shares = is_full() and 'more' or 'ok', lane_cursor.close()
  for _, level in ipairs(levels) do sweep_departed(level) end
  plan.added = plan.added - promoted
  if plan.room > 0 then plan.room, plan.spent = math.max(plan.room - promoted, 0), true end
  add_waste()
  call('HSET', lock, 'last', call_id .. ' ' .. promoted .. ' ' .. int(base.jobs))
  commit()
  return {outcome, promoted, base.jobs, wire.join_list(shares)}
end

return {run = promote_run}
