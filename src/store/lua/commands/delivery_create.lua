-- Makes deliveries of events and moves on behind those: of all processes that try, one does.
--
-- deliveries    zset  deliveries by when they are tried next
-- delivery:ID   hash  sub, kind, body; n tries so far, created, error of the last try; dead 1 if it was given up
-- undelivered   zset  those that were given up, by when
--
-- ARGV[9…] the event behind which it was read, the one to go on behind, most deliveries; for each: id, subscription, type, body
-- Returns  1, or 0 if another process did it

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local call = redis.call

local function run()
  local HOOKED, DELIVERIES = ctx.prefix .. 'hooked', ctx.prefix .. 'deliveries'
  if (call('GET', HOOKED) or '') ~= ctx.args[9] then return 0 end
  local room = tonumber(ctx.args[11]) - call('ZCARD', DELIVERIES)
  local dropped = 0
  for at = 12, #ctx.args, 4 do
    if room > 0 then
      call('HSET', ctx.prefix .. 'delivery:' .. ctx.args[at], 'sub', ctx.args[at + 1], 'kind', ctx.args[at + 2], 'body', ctx.args[at + 3], 'n', '0', 'created',
        ctx.now_text)
      call('ZADD', DELIVERIES, ctx.now_text, ctx.args[at])
      room = room - 1
    else
      dropped = dropped + 1
    end
  end
  call('SET', HOOKED, ctx.args[10])
  if dropped > 0 then emit('webhook.dropped', subject(''), '"count":' .. dropped) end
  commit()
  return 1
end

return run
