-- Adds, changes or removes a subscription to events.
--
-- hooks   hash    id → document that only Rust reads
-- hooked  string  `commands/delivery_create`
--
-- ARGV[9…]
--   id        subscription
--   before    document to replace, or ''
--   document  new document, or '' to remove the subscription
--   most      most subscriptions
--   newest    id of the newest event
--
-- Returns  'ok', 'stale' if the stored document is another one, or 'full'

local ctx = require('lib/context')

local call = redis.call

local function run()
  local HOOKS = ctx.prefix .. 'hooks'
  local was = call('HGET', HOOKS, ctx.args[9]) or ''
  if was == ctx.args[11] then return 'ok' end -- a resend
  if was ~= ctx.args[10] then return 'stale' end
  if ctx.args[11] == '' then
    call('HDEL', HOOKS, ctx.args[9])
    return 'ok'
  end
  local number = call('HLEN', HOOKS)
  if was == '' and number >= tonumber(ctx.args[12]) then return 'full' end
  -- The first subscription starts with events from now on.
  if number == 0 then call('SET', ctx.prefix .. 'hooked', ctx.args[13]) end
  call('HSET', HOOKS, ctx.args[9], ctx.args[11])
  return 'ok'
end

return run
