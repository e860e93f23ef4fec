-- Claims webhook deliveries that are due. A claimed delivery becomes due again later, unless
-- `commands/delivery_finish` is called before.
--
-- Takes
--   most      number  most deliveries to claim
--   retry_ms  number  ms after which they are due again
--
-- Returns
--   now         number
--   deliveries  list of {id: string, subscription: string, kind: string, body: string, tries: number}

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local function run()
  local args = packed.read()
  local DELIVERIES, deliveries = ctx.prefix .. 'deliveries', {}
  for _, id in ipairs(call('ZRANGEBYSCORE', DELIVERIES, '-inf', ctx.now_text, 'LIMIT', 0, args.most)) do
    local subscription, kind, body, tries = unpack(call('HMGET', ctx.prefix .. 'delivery:' .. id, 'sub', 'kind', 'body', 'n'))
    if subscription then
      call('ZADD', DELIVERIES, int(ctx.now + args.retry_ms), id)
      deliveries[#deliveries + 1] = {id = id, subscription = subscription, kind = kind or nil, body = body or nil, tries = tonumber(tries)}
    else
      call('ZREM', DELIVERIES, id)
    end
  end
  return packed.write({now = ctx.now, deliveries = deliveries})
end

return run
