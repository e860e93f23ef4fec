-- Creates deliveries for events and advances `hooked` past these events. Several processes may try;
-- one succeeds.
--
-- hooked       string  id of the last event for which deliveries were created
-- deliveries   zset    deliveries by the time of the next attempt
-- delivery:ID  hash    sub, kind, body; n: attempts so far; created; error: of the last attempt;
--                      dead: 1 if it was given up
-- undelivered  zset    deliveries that were given up, by time
--
-- ARGV[9…]
--   before  value that `hooked` must have
--   after   its new value
--   most    most deliveries that may exist
--   …       for each delivery: id, subscription, type, body
--
-- Returns  1, or 0 if `hooked` has another value

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local call = redis.call

local function run()
  local before, after, most = unpack(ctx.args, 9, 11)
  local HOOKED, DELIVERIES = ctx.prefix .. 'hooked', ctx.prefix .. 'deliveries'
  if (call('GET', HOOKED) or '') ~= before then return 0 end
  local room = tonumber(most) - call('ZCARD', DELIVERIES)
  local dropped = 0
  for at = 12, #ctx.args, 4 do
    if room > 0 then
      local id, subscription, kind, body = unpack(ctx.args, at, at + 3)
      call('HSET', ctx.prefix .. 'delivery:' .. id, 'sub', subscription, 'kind', kind, 'body', body, 'n', '0',
        'created', ctx.now_text)
      call('ZADD', DELIVERIES, ctx.now_text, id)
      room = room - 1
    else
      dropped = dropped + 1
    end
  end
  call('SET', HOOKED, after)
  if dropped > 0 then emit('webhook.dropped', subject(''), '"count":' .. dropped) end
  commit()
  return 1
end

return run
