-- Creates deliveries for events and advances `hooked` past these events. Several processes may try;
-- one succeeds.
--
-- hooked       string  id of the last event for which deliveries were created
-- deliveries   zset    deliveries by the time of the next attempt
-- delivery:ID  hash    sub, kind, body; n: attempts so far; created; error: of the last attempt;
--                      dead: 1 if it was given up
-- undelivered  zset    deliveries that were given up, by time
--
-- Takes
--   before      string  value that `hooked` must have
--   after       string  its new value
--   most        number  most deliveries that may exist
--   deliveries  list of {id: string, subscription: string, kind: string, body: string}
--
-- Returns  true, or false if `hooked` has another value

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local call = redis.call

local function run()
  local args = packed.read()
  local HOOKED, DELIVERIES = ctx.prefix .. 'hooked', ctx.prefix .. 'deliveries'
  if (call('GET', HOOKED) or '') ~= args.before then return packed.write(false) end
  local room = args.most - call('ZCARD', DELIVERIES)
  local dropped = 0
  for _, delivery in ipairs(args.deliveries) do
    if room > 0 then
      call('HSET', ctx.prefix .. 'delivery:' .. delivery.id, 'sub', delivery.subscription, 'kind', delivery.kind, 'body', delivery.body,
        'n', '0', 'created', ctx.now_text)
      call('ZADD', DELIVERIES, ctx.now_text, delivery.id)
      room = room - 1
    else
      dropped = dropped + 1
    end
  end
  call('SET', HOOKED, args.after)
  if dropped > 0 then emit('webhook.dropped', subject(''), '"count":' .. dropped) end
  commit()
  return packed.write(true)
end

return run
