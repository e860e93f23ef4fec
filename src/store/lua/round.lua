-- Begins a round: takes the rule's lock, or says why not, and reads what the round needs to know.
--
-- plan:R:lock  hash  token (counter and nonce: neither a failover nor an emptied Redis makes two alike), holder, busy (1 while
--                    a round runs), with a TTL
--
-- ARGV[9…] rule, holder, nonce, life of the lock ms, why (`tick`, `wake` or `run`), next scheduled time ms or '' for an
--          interval
-- Returns  {'gone'}, {'paused'}, {'empty'}, {'early', due}, {'held', holder, ms left}
--          or {'ok', token, round, 1 if scheduled, room, due, now, what `observe` says of each queue, …}

local rule, holder, nonce, life, why, next_due = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], tonumber(ARGV[14])
local key = P .. 'plan:' .. rule
local lock = key .. ':lock'
local plan = plan_open(rule)
if not plan then return {'gone'} end
local queues = call('SMEMBERS', key .. ':queues')
if #queues == 0 then return {'empty'} end
if plan.paused then return {'paused'} end

local held = call('HMGET', lock, 'holder', 'busy')
if held[1] and held[1] ~= holder and not (why == 'run' and held[2] == '0') then
  return {'held', held[1], call('PTTL', lock)}
end
-- Cron: the first due time is the next one; an interval: at once.
local scheduled = why == 'tick' and now >= plan.due
if next_due and plan.due == 0 then
  call('HSET', key, 'due', int(next_due))
  plan.due, scheduled = next_due, false
end
if why ~= 'run' and not scheduled and (why == 'tick' or plan.strict) then return {'early', int(plan.due)} end

if scheduled then plan.due = next_due or now + plan.every end
if scheduled or why == 'run' then plan.room, plan.spent = plan.jobs, true end
local token = call('HINCRBY', key, 'token', 1) .. ':' .. nonce
local round = call('HINCRBY', key, 'rounds', 1)
call('HSET', lock, 'token', token, 'holder', holder, 'busy', '1')
call('PEXPIRE', lock, life)

local answer = {'ok', token, round, scheduled and 1 or 0, plan.room, int(plan.due), now_text}
for _, queue in ipairs(queues) do answer[#answer + 1] = observe(rule, queue) end
commit()
return answer
