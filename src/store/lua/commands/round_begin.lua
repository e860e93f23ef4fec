-- Begins a round: takes the rule's lock, or says why not, and reads what the round needs to know.
--
-- plan:R:lock  hash  token (counter and nonce: neither a failover nor an emptied Redis makes two alike), holder, busy (1 while
--                    a round runs), scheduled, with a TTL
--
-- ARGV[9…] rule, holder, nonce, life of the lock ms, why (`tick`, `wake` or `run`); for a cron the next scheduled time ms, and
--          the time after which it is the next, both '' for an interval
-- Returns  {'gone'}, {'paused'}, {'empty'}, {'early', due, now}, {'held', holder, ms left}, {'again', now} if the cron's time must
--          be computed from another now
--          or {'ok', token, round, 1 if scheduled, room, due, now, what `observe` says of each queue, …}

local ctx = require('lib/context')
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

-- A process' name inside a JSON string. It is stored percent-encoded.
local function shown(name)
  local plain = string.gsub(name, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end)
  return (string.gsub(plain, '[\\"]', '\\%0'))
end

local function run()
  local rule, holder, nonce, life, why, next_due, since =
    ctx.args[9], ctx.args[10], ctx.args[11], ctx.args[12], ctx.args[13], tonumber(ctx.args[14]), tonumber(ctx.args[15])
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = key .. ':lock'
  local plan = plan_open(rule)
  if not plan then return {'gone'} end
  local queues = plan_queues(rule)
  if #queues == 0 then return {'empty'} end

  -- Tenants that stayed in staging because of blocked jobs wait for their turn again when those are fewer.
  local STUCK_A_ROUND = 64

  local function unstick(fair, queue)
    for _, name in ipairs(call('SRANDMEMBER', fair.key .. ':stuck', STUCK_A_ROUND)) do
      if not staging.is_stuck(plan, queue, name) then
        local tenant = tenant_of(fair, name)
        call('SREM', fair.key .. ':stuck', name)
        if tenant.state == 'b' then
          tenant_enter(fair, tenant, tenant.weight)
          tenant_touch(fair, tenant)
        end
      end
    end
  end

  local function answer(token, round, scheduled)
    local words = {'ok', token, round, scheduled and 1 or 0, plan.room, int(plan.due), ctx.now_text}
    for _, queue in ipairs(queues) do words[#words + 1] = observe(rule, queue) end
    return words
  end

  local held = call('HMGET', lock, 'holder', 'busy', 'token', 'scheduled')
  local counted = call('HMGET', key, 'rounds', 'recorded', 'planner')
  -- Sent again: the round has begun, and its time has moved on.
  if held[3] and string.sub(held[3], -#nonce - 1) == ':' .. nonce then
    return answer(held[3], counted[1], held[4] == '1')
  end
  if plan.paused then return {'paused'} end
  if held[1] and held[1] ~= holder and not (why == 'run' and held[2] == '0') then
    -- Redis keeps the end of a TTL by its clock: one that was set back would keep the lock of a dead holder.
    if call('PTTL', lock) > tonumber(life) then call('PEXPIRE', lock, life) end
    return {'held', held[1], call('PTTL', lock)}
  end

  -- When the next scheduled round is due. It is never further away than one step of the pace: else the pace is another one
  -- now, or the clock has stepped back.
  if plan.every then
    if plan.due > ctx.now + plan.every then plan.due = ctx.now end
  elseif not next_due then
    return {'early', int(ctx.now + 1000), ctx.now_text} -- the caller still knows an interval; it hears of the cron in a moment
  elseif since > ctx.now or next_due <= ctx.now then
    return {'again', ctx.now_text}
  elseif plan.due == 0 or (plan.due > ctx.now and plan.due ~= next_due) then
    -- The first due time is the next one; an interval begins at once.
    call('HSET', key, 'due', int(next_due))
    plan.due = next_due
  end

  -- Signals may be lost: a queue whose planner was told that it runs low, and for which no round has been run since.
  local function is_low()
    for _, queue in ipairs(queues) do
      local waiting, unknown = staging.waiting(staging_open(rule, queue))
      if waiting + unknown > 0 and (call('HGET', ctx.prefix .. 'low', 'm ' .. queue) or '0') == '0' then return true end
    end
    return false
  end

  local scheduled = why == 'tick' and ctx.now >= plan.due
  -- Whoever began the last round has not ended it: what it left of the interval's batch is promoted now.
  local unfinished = (counted[1] or '0') ~= (counted[2] or '0')
  -- A strict interval is woken for what is left of its batch, and for nothing else.
  local is_wanted
  if plan.strict then
    is_wanted = why == 'wake' and plan.room > 0
  else
    is_wanted = why == 'wake' or is_low()
  end
  if not scheduled and not unfinished and why ~= 'run' and not is_wanted then return {'early', int(plan.due), ctx.now_text} end

  for _, queue in ipairs(queues) do
    for _, fair in ipairs(staging.levels(staging_open(rule, queue))) do unstick(fair, queue) end
  end
  if scheduled then plan.due = plan.every and ctx.now + plan.every or next_due end
  if scheduled or why == 'run' then plan.room = plan.jobs end
  plan.spent = true
  -- A round that somebody asks for by hand does not take over.
  local before = match(counted[3] or '', '^%-?(.*)$')
  if why ~= 'run' and counted[3] ~= holder then
    call('HSET', key, 'planner', holder)
    if before ~= '' and before ~= holder then
      emit('planner.taken_over', subject(rule), '"from":"' .. shown(before) .. '","to":"' .. shown(holder)
        .. '","lock_expired":' .. (before == counted[3] and 'true' or 'false'))
    end
  end
  local token = call('HINCRBY', key, 'token', 1) .. ':' .. nonce
  local round = call('HINCRBY', key, 'rounds', 1)
  call('HSET', lock, 'token', token, 'holder', holder, 'busy', '1', 'scheduled', scheduled and '1' or '0')
  call('PEXPIRE', lock, life)
  local visits = {}
  for position, queue in ipairs(queues) do visits[position * 2 - 1], visits[position * 2] = round, queue end
  call('ZADD', key .. ':queues', 'XX', unpack(visits))
  local words = answer(token, round, scheduled)
  commit()
  return words
end

return run
