-- Keeps a subscription to events, changes it or removes it.
--
-- hooks   hash    subscriptions by id, as documents that only Rust reads
-- hooked  string  the event up to which deliveries were made
--
-- ARGV[9…] id, the document that it replaces or '', the document or '' to remove it, most subscriptions, id of the newest event
-- Returns  'ok', 'stale' if it is another one by now, or 'full'

run = function()
  local HOOKS = P .. 'hooks'
  local was = call('HGET', HOOKS, ARGV[9]) or ''
  if was == ARGV[11] then return 'ok' end -- sent again
  if was ~= ARGV[10] then return 'stale' end
  if ARGV[11] == '' then
    call('HDEL', HOOKS, ARGV[9])
    return 'ok'
  end
  local number = call('HLEN', HOOKS)
  if was == '' and number >= tonumber(ARGV[12]) then return 'full' end
  -- Nobody was told of what happened while nobody listened.
  if number == 0 then call('SET', P .. 'hooked', ARGV[13]) end
  call('HSET', HOOKS, ARGV[9], ARGV[11])
  return 'ok'
end
