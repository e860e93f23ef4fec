-- Makes a dead delivery due again, with all its attempts.
--
-- Takes
--   id  string  delivery
--
-- Returns  true, also if the delivery is waiting already; false if it does not exist

local ctx = require('lib/context')
local packed = require('lib/packed')

local call = redis.call

local function run()
  local id = packed.read().id
  local key = ctx.prefix .. 'delivery:' .. id
  if call('HGET', key, 'dead') ~= '1' then return packed.write(call('ZSCORE', ctx.prefix .. 'deliveries', id) ~= false) end
  call('HSET', key, 'n', '0')
  call('HDEL', key, 'dead')
  call('PERSIST', key)
  call('ZREM', ctx.prefix .. 'undelivered', id)
  call('ZADD', ctx.prefix .. 'deliveries', ctx.now_text, id)
  return packed.write(true)
end

return run
