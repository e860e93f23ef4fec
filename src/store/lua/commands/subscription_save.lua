-- Keeps a subscription to events, changes it or removes it.
--
-- hooks   hash    subscriptions by id, as documents that only Rust reads
-- hooked  string  the event up to which deliveries were made
--
-- ARGV[9…] id, the document that it replaces or '', the document or '' to remove it, most subscriptions, id of the newest event
-- Returns  'ok', 'stale' if it is another one by now, or 'full'

local ctx = require('lib/context')

local call = redis.call

local function run()
  local HOOKS = ctx.prefix .. 'hooks'
  local was = call('HGET', HOOKS, ctx.args[9]) or ''
  if was == ctx.args[11] then return 'ok' end -- sent again
  if was ~= ctx.args[10] then return 'stale' end
  if ctx.args[11] == '' then
    call('HDEL', HOOKS, ctx.args[9])
    return 'ok'
  end
  local number = call('HLEN', HOOKS)
  if was == '' and number >= tonumber(ctx.args[12]) then return 'full' end
  -- Nobody was told of what happened while nobody listened.
  if number == 0 then call('SET', ctx.prefix .. 'hooked', ctx.args[13]) end
  call('HSET', HOOKS, ctx.args[9], ctx.args[11])
  return 'ok'
end

return run
