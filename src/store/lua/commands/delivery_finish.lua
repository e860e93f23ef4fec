-- What became of a delivery: done with, to be tried again, or given up.
--
-- ARGV[9…] id, `done`, `again` or `dead`, ms until the next try, what went wrong as JSON, ms for which a dead one is kept, most dead ones
-- Returns  1, or 0 if there is none

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, int, subject = runtime.commit, runtime.emit, runtime.int, runtime.subject
local call = redis.call

local function run()
  local id, key = ctx.args[9], ctx.prefix .. 'delivery:' .. ctx.args[9]
  if call('EXISTS', key) == 0 then return 0 end
  if ctx.args[10] == 'done' then
    call('ZREM', ctx.prefix .. 'deliveries', id)
    call('UNLINK', key)
    return 1
  end
  call('HINCRBY', key, 'n', 1)
  call('HSET', key, 'error', ctx.args[12])
  if ctx.args[10] == 'again' then
    call('ZADD', ctx.prefix .. 'deliveries', int(ctx.now + tonumber(ctx.args[11])), id)
    return 1
  end
  local DEAD = ctx.prefix .. 'undelivered'
  call('ZREM', ctx.prefix .. 'deliveries', id)
  call('HSET', key, 'dead', '1')
  call('PEXPIRE', key, ctx.args[13])
  call('ZADD', DEAD, ctx.now_text, id)
  call('ZREMRANGEBYSCORE', DEAD, '-inf', int(ctx.now - tonumber(ctx.args[13])))
  for _, old in ipairs(call('ZRANGE', DEAD, 0, -1 - tonumber(ctx.args[14]))) do
    call('UNLINK', ctx.prefix .. 'delivery:' .. old)
    call('ZREM', DEAD, old)
  end
  emit('webhook.dead', subject(''), '"delivery_id":"' .. id .. '","subscription_id":"' .. (call('HGET', key, 'sub') or '') .. '","error":'
    .. ctx.args[12])
  commit()
  return 1
end

return run
