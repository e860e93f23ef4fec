-- Begins a round: takes the planner lock of a rule and returns the state of its main queues.
--
-- plan:R:lock  hash  token: counter and nonce, so that neither a failover nor an emptied Redis
--                    repeats one; holder; busy: 1 while a round runs; scheduled: 1 if the round is;
--                    last: `staging/promote`; with a TTL
--
-- Takes
--   rule    string  rule
--   holder  string  this process
--   nonce   string  random; identifies the call
--   life    number  TTL of the lock in ms
--   why     string  `tick`, `wake` or `run`
--   next    {since: number, at: number}?  for a cron: its next scheduled time, and the time from
--           which that was computed
--
-- Returns  `gone`, `paused`, `empty`, {early: {due: number, now: number}}, {held: {by: string,
--          left_ms: number}}, {again: number} with the time, if the cron's next time must be computed
--          again, or {round: …} with
--   token      string
--   number     number   of the round
--   scheduled  boolean
--   room       number   jobs that may still be promoted in the interval
--   due        number   time of the next scheduled round
--   now        number
--   queues     list of results of `staging/observe`

local ctx = require('lib/context')
local packed = require('lib/packed')
local plan_module = require('staging/plan')
local fair_queue = require('fairness/fair_queue')
local fair_queues = require('staging/fair_queues')
local observe_module = require('staging/observe')
local runtime = require('lib/runtime')

local commit, emit, int, subject = runtime.commit, runtime.emit, runtime.int, runtime.subject
local plan_open, plan_queues = plan_module.open, plan_module.queues
local tenant_enter, tenant_of, tenant_touch = fair_queue.tenant_enter, fair_queue.tenant_of, fair_queue.tenant_touch
local staging, staging_open = fair_queues.staging, fair_queues.open
local observe = observe_module.observe
local call = redis.call
local match = string.match

-- Returns the name of a process as part of a JSON string. Stored names are percent-encoded.
local function shown(name)
  local plain = string.gsub(name, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end)
  return (string.gsub(plain, '[\\"]', '\\%0'))
end

local STUCK_PER_ROUND = 64

-- Lets tenants take turns again that were blocked because of their blocked jobs, if those are few
-- enough now.
local function unblock(plan, fair, queue)
  for _, name in ipairs(call('SRANDMEMBER', fair.key .. ':stuck', STUCK_PER_ROUND)) do
    if not staging.is_blocked(plan, queue, name) then
      local tenant = tenant_of(fair, name)
      call('SREM', fair.key .. ':stuck', name)
      if tenant.state == 'b' then
        tenant_enter(fair, tenant, tenant.weight)
        tenant_touch(fair, tenant)
      end
    end
  end
end

local function unblock_all(plan, rule, queues)
  for _, queue in ipairs(queues) do
    for _, fair in ipairs(staging.levels(staging_open(rule, queue))) do unblock(plan, fair, queue) end
  end
end

-- Signals may be lost. Returns true if a queue was signalled as low and no round has run for it
-- since.
local function is_low(rule, queues)
  for _, queue in ipairs(queues) do
    local waiting, unknown = staging.waiting(staging_open(rule, queue))
    if waiting + unknown > 0 and (call('HGET', ctx.prefix .. 'low_water', 'mark ' .. queue) or '0') == '0' then return true end
  end
  return false
end

local function answer(plan, rule, queues, token, round, scheduled)
  local observed = {}
  for place, queue in ipairs(queues) do observed[place] = observe(rule, queue) end
  return {round = {token = token, number = tonumber(round), scheduled = scheduled, room = math.max(plan.room, 0), due = plan.due,
    now = ctx.now, queues = observed}}
end

-- Computes the due time of the next scheduled round. It is at most one interval away; if it is
-- further, the interval has changed or the clock was set back. Returns the answer if a cron's time
-- is not known, else nil.
local function set_due(plan, next_time)
  if plan.every then
    if plan.due > ctx.now + plan.every then plan.due = ctx.now end
  elseif not next_time then
    -- The caller still has the old interval; it will learn of the cron soon.
    return {early = {due = ctx.now + 1000, now = ctx.now}}
  elseif next_time.since > ctx.now or next_time.at <= ctx.now then
    return {again = ctx.now}
  elseif plan.due == 0 or (plan.due > ctx.now and plan.due ~= next_time.at) then
    -- A cron begins with its next time, an interval at once.
    call('HSET', plan.key, 'due', int(next_time.at))
    plan.due = next_time.at
  end
end

-- Records the process that plans the rule, and emits that it took over. `planner` is the previous
-- one as stored.
local function take_over(plan, rule, holder, planner)
  if planner == holder then return end
  local before = match(planner or '', '^%-?(.*)$')
  call('HSET', plan.key, 'planner', holder)
  if before ~= '' and before ~= holder then
    emit('planner.taken_over', subject(rule), '"from":"' .. shown(before) .. '","to":"' .. shown(holder)
      .. '","lock_expired":' .. (before == planner and 'true' or 'false'))
  end
end

local function begin(args)
  local rule, holder, nonce, life, why = args.rule, args.holder, args.nonce, args.life, args.why
  local plan = plan_open(rule)
  if not plan then return 'gone' end
  local lock = plan.key .. ':lock'
  local queues = plan_queues(rule)
  if #queues == 0 then return 'empty' end

  local held_by, busy, held_token, was_scheduled = unpack(call('HMGET', lock, 'holder', 'busy', 'token', 'scheduled'))
  local rounds, recorded, planner = unpack(call('HMGET', plan.key, 'rounds', 'recorded', 'planner'))
  -- A resend: the round has begun, and its due time has moved on.
  if held_token and string.sub(held_token, -#nonce - 1) == ':' .. nonce then
    return answer(plan, rule, queues, held_token, rounds, was_scheduled == '1')
  end
  if plan.paused then return 'paused' end
  if held_by and held_by ~= holder and not (why == 'run' and busy == '0') then
    -- Redis keeps the end of a TTL by its clock. If the clock was set back, the lock of a dead
    -- holder would live too long.
    if call('PTTL', lock) > life then call('PEXPIRE', lock, life) end
    return {held = {by = held_by, left_ms = math.max(call('PTTL', lock), 0)}}
  end

  local too_early = set_due(plan, args.next)
  if too_early then return too_early end
  local scheduled = why == 'tick' and ctx.now >= plan.due
  -- The last round was not ended. Its rest of the interval's batch is promoted now.
  local unfinished = (rounds or '0') ~= (recorded or '0')
  local is_wanted
  if plan.strict then
    -- With `strict_interval`, a wake-up only promotes the rest of the interval's batch.
    is_wanted = why == 'wake' and plan.room > 0
  else
    is_wanted = why == 'wake' or is_low(rule, queues)
  end
  if not scheduled and not unfinished and why ~= 'run' and not is_wanted then return {early = {due = plan.due, now = ctx.now}} end

  unblock_all(plan, rule, queues)
  if scheduled then plan.due = plan.every and ctx.now + plan.every or args.next.at end
  if scheduled or why == 'run' then plan.room = plan.jobs end
  plan.spent = true
  -- A round that was requested through the API does not make its process the rule's planner.
  if why ~= 'run' then take_over(plan, rule, holder, planner) end
  local token = call('HINCRBY', plan.key, 'token', 1) .. ':' .. nonce
  local round = call('HINCRBY', plan.key, 'rounds', 1)
  call('HSET', lock, 'token', token, 'holder', holder, 'busy', '1', 'scheduled', scheduled and '1' or '0')
  call('PEXPIRE', lock, life)
  local visits = {}
  for position, queue in ipairs(queues) do visits[position * 2 - 1], visits[position * 2] = round, queue end
  call('ZADD', plan.key .. ':queues', 'XX', unpack(visits))
  local begun = answer(plan, rule, queues, token, round, scheduled)
  commit()
  return begun
end

local function run()
  return packed.write(begin(packed.read()))
end

return run
