-- Makes a dead delivery due again, with all its attempts.
--
-- ARGV[9]  id of the delivery
--
-- Returns  1, also if the delivery is waiting already; 0 if it does not exist

local ctx = require('lib/context')

local call = redis.call

local function run()
  local id, key = ctx.args[9], ctx.prefix .. 'delivery:' .. ctx.args[9]
  if call('HGET', key, 'dead') ~= '1' then return call('ZSCORE', ctx.prefix .. 'deliveries', id) and 1 or 0 end
  call('HSET', key, 'n', '0')
  call('HDEL', key, 'dead')
  call('PERSIST', key)
  call('ZREM', ctx.prefix .. 'undelivered', id)
  call('ZADD', ctx.prefix .. 'deliveries', ctx.now_text, id)
  return 1
end

return run
