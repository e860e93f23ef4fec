-- Records the result of a delivery attempt: removes the delivery, schedules the next attempt, or
-- gives it up.
--
-- ARGV[9…]
--   id         delivery
--   outcome    `done`, `again` or `dead`
--   retry_ms   ms until the next attempt
--   error      reason of the failure, as JSON
--   keep_ms    ms for which a dead delivery is kept
--   most_dead  most dead deliveries to keep
--
-- Returns  1, or 0 if the delivery does not exist

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, int, subject = runtime.commit, runtime.emit, runtime.int, runtime.subject
local call = redis.call

local function run()
  local id, outcome, retry_ms, error, keep_ms, most_dead = unpack(ctx.args, 9, 14)
  local key = ctx.prefix .. 'delivery:' .. id
  if call('EXISTS', key) == 0 then return 0 end
  if outcome == 'done' then
    call('ZREM', ctx.prefix .. 'deliveries', id)
    call('UNLINK', key)
    return 1
  end
  call('HINCRBY', key, 'n', 1)
  call('HSET', key, 'error', error)
  if outcome == 'again' then
    call('ZADD', ctx.prefix .. 'deliveries', int(ctx.now + tonumber(retry_ms)), id)
    return 1
  end
  local DEAD = ctx.prefix .. 'undelivered'
  call('ZREM', ctx.prefix .. 'deliveries', id)
  call('HSET', key, 'dead', '1')
  call('PEXPIRE', key, keep_ms)
  call('ZADD', DEAD, ctx.now_text, id)
  call('ZREMRANGEBYSCORE', DEAD, '-inf', int(ctx.now - tonumber(keep_ms)))
  for _, oldest in ipairs(call('ZRANGE', DEAD, 0, -1 - tonumber(most_dead))) do
    call('UNLINK', ctx.prefix .. 'delivery:' .. oldest)
    call('ZREM', DEAD, oldest)
  end
  emit('webhook.dead', subject(''), '"delivery_id":"' .. id .. '","subscription_id":"' .. (call('HGET', key, 'sub') or '') .. '","error":'
    .. error)
  commit()
  return 1
end

return run
