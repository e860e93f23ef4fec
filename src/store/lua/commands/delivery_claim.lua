-- Claims webhook deliveries that are due. A claimed delivery becomes due again later, unless
-- `commands/delivery_finish` is called before.
--
-- ARGV[9…]
--   most      most deliveries to claim
--   retry_ms  ms after which they are due again
--
-- Returns  {now, id, {sub, kind, body, n}, …}

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local function run()
  local most, retry_ms = unpack(ctx.args, 9, 10)
  local DELIVERIES, answer = ctx.prefix .. 'deliveries', {ctx.now_text}
  for _, id in ipairs(call('ZRANGEBYSCORE', DELIVERIES, '-inf', ctx.now_text, 'LIMIT', 0, most)) do
    local fields = call('HMGET', ctx.prefix .. 'delivery:' .. id, 'sub', 'kind', 'body', 'n')
    if fields[1] then
      call('ZADD', DELIVERIES, int(ctx.now + tonumber(retry_ms)), id)
      answer[#answer + 1], answer[#answer + 2] = id, fields
    else
      call('ZREM', DELIVERIES, id)
    end
  end
  return answer
end

return run
