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
  local id, before, document, most, newest = unpack(ctx.args, 9, 13)
  local HOOKS = ctx.prefix .. 'hooks'
  local was = call('HGET', HOOKS, id) or ''
  if was == document then return 'ok' end -- a resend
  if was ~= before then return 'stale' end
  if document == '' then
    call('HDEL', HOOKS, id)
    return 'ok'
  end
  local number = call('HLEN', HOOKS)
  if was == '' and number >= tonumber(most) then return 'full' end
  -- The first subscription starts with events from now on.
  if number == 0 then call('SET', ctx.prefix .. 'hooked', newest) end
  call('HSET', HOOKS, id, document)
  return 'ok'
end

return run
