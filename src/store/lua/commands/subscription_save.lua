-- Adds, changes or removes a subscription to events.
--
-- hooks   hash    id → document that only Rust reads
-- hooked  string  `commands/delivery_create`
--
-- Takes
--   id        string   subscription
--   before    string?  document to replace; nil if there is none
--   document  string?  new document; nil to remove the subscription
--   most      number   most subscriptions
--   newest    string   id of the newest event, or ''
--
-- Returns  `done`, `stale` if the stored document is another one, or `full`

local ctx = require('lib/context')
local packed = require('lib/packed')

local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local HOOKS = ctx.prefix .. 'hooks'
  local was = call('HGET', HOOKS, args.id) or nil
  if was == args.document then return write('done') end -- a resend
  if was ~= args.before then return write('stale') end
  if not args.document then
    call('HDEL', HOOKS, args.id)
    return write('done')
  end
  local number = call('HLEN', HOOKS)
  if not was and number >= args.most then return write('full') end
  -- The first subscription starts with events from now on.
  if number == 0 then call('SET', ctx.prefix .. 'hooked', args.newest) end
  call('HSET', HOOKS, args.id, args.document)
  return write('done')
end

return run
