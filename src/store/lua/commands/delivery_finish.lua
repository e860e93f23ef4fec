-- Records the result of a delivery attempt: removes the delivery, schedules the next attempt, or
-- gives it up.
--
-- Takes
--   id         string  delivery
--   outcome    `done`, {again: {retry_ms: number, error: string}}, or {dead: {error: string}}; errors
--              as JSON
--   keep_ms    number  ms for which a dead delivery is kept
--   most_dead  number  most dead deliveries to keep
--
-- Returns  true, or false if the delivery does not exist

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, emit, int, subject = runtime.commit, runtime.emit, runtime.int, runtime.subject
local call = redis.call

local function give_up(args)
  local key, DEAD = ctx.prefix .. 'delivery:' .. args.id, ctx.prefix .. 'undelivered'
  call('ZREM', ctx.prefix .. 'deliveries', args.id)
  call('HSET', key, 'dead', '1')
  call('PEXPIRE', key, int(args.keep_ms))
  call('ZADD', DEAD, ctx.now_text, args.id)
  call('ZREMRANGEBYSCORE', DEAD, '-inf', int(ctx.now - args.keep_ms))
  for _, oldest in ipairs(call('ZRANGE', DEAD, 0, -1 - args.most_dead)) do
    call('UNLINK', ctx.prefix .. 'delivery:' .. oldest)
    call('ZREM', DEAD, oldest)
  end
  emit('webhook.dead', subject(''), '"delivery_id":"' .. args.id .. '","subscription_id":"' .. (call('HGET', key, 'sub') or '')
    .. '","error":' .. args.outcome.dead.error)
  commit()
end

local function run()
  local args = packed.read()
  local id, outcome = args.id, args.outcome
  local key = ctx.prefix .. 'delivery:' .. id
  if call('EXISTS', key) == 0 then return packed.write(false) end
  if outcome == 'done' then
    call('ZREM', ctx.prefix .. 'deliveries', id)
    call('UNLINK', key)
  else
    call('HINCRBY', key, 'n', 1)
    call('HSET', key, 'error', (outcome.again or outcome.dead).error)
    if outcome.again then
      call('ZADD', ctx.prefix .. 'deliveries', int(ctx.now + outcome.again.retry_ms), id)
    else
      give_up(args)
    end
  end
  return packed.write(true)
end

return run
