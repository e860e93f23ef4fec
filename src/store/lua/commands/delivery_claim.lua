-- Hands out deliveries that are due, so that no two processes send the same at once. One that is not settled in time is due again.
--
-- ARGV[9…] how many at most, ms until they are due again
-- Returns  {now, id, {sub, kind, body, n}, …}

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local function run()
  local DELIVERIES, answer = ctx.prefix .. 'deliveries', {ctx.now_text}
  for _, id in ipairs(call('ZRANGEBYSCORE', DELIVERIES, '-inf', ctx.now_text, 'LIMIT', 0, ctx.args[9])) do
    local fields = call('HMGET', ctx.prefix .. 'delivery:' .. id, 'sub', 'kind', 'body', 'n')
    if fields[1] then
      call('ZADD', DELIVERIES, int(ctx.now + tonumber(ctx.args[10])), id)
      answer[#answer + 1], answer[#answer + 2] = id, fields
    else
      call('ZREM', DELIVERIES, id)
    end
  end
  return answer
end

return run
