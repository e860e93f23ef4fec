-- Returns the state of pools and queues. Read-only.
--
-- ARGV[9…]  names of pools
--
-- Returns  {now, {queue, active jobs, …} of all queues, {field, value, …} of `pace` for the last
--          two minutes, {active workers, active jobs} of each pool, …}

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local function run()
  local dead_after = ctx.settings.dead_after
  local minute = math.floor(ctx.now / 60000)
  local queues, pace = {}, {}
  for _, queue in ipairs(call('HKEYS', ctx.prefix .. 'queues')) do
    queues[#queues + 1] = queue
    queues[#queues + 1] = call('HGET', ctx.prefix .. 'counts:' .. queue, 'active') or '0'
  end
  for back = 1, 0, -1 do
    for _, word in ipairs(call('HGETALL', ctx.prefix .. 'pace:' .. int(minute - back))) do pace[#pace + 1] = word end
  end
  local answer = {ctx.now_text, queues, pace}
  for position = 9, #ctx.args do
    local key = ctx.prefix .. 'pool:' .. ctx.args[position]
    answer[#answer + 1] = {call('ZCOUNT', key .. ':workers', ctx.now - dead_after, '+inf'), call('SCARD', key .. ':run')}
  end
  return answer
end

return run
