-- Registers a cron, or changes it.
--
-- crons      zset  crons by their next time; +inf while disabled
-- cron:NAME  hash  doc (what its client registered, which only Rust reads), version (another one after each change), timing (what its
--                  times depend on), created; last (the time it last fired for), runs, job (the last one it made)
--
-- ARGV[9…] name, version that it must have ('' if it must not exist), new version, document, timing, next time or '' while disabled,
--          most crons there may be
-- Returns  'created', 'changed', 'stale' if it has another version, or 'full'

run = function()
  local CRONS, key = P .. 'crons', P .. 'cron:' .. ARGV[9]
  local was = call('HMGET', key, 'version', 'timing')
  if was[1] == ARGV[11] then return 'changed' end -- sent again
  if (was[1] or '') ~= ARGV[10] then return 'stale' end
  if not was[1] and call('ZCARD', CRONS) >= tonumber(ARGV[15]) then return 'full' end
  call('HSET', key, 'version', ARGV[11], 'doc', ARGV[12], 'timing', ARGV[13])
  call('HSETNX', key, 'created', now_text)
  -- Programs register their crons anew whenever they start: a time that is due already must not be lost by that.
  local keeps = was[2] == ARGV[13] and ARGV[14] ~= '' and tonumber(call('ZSCORE', CRONS, ARGV[9]) or nil) ~= math.huge
  if not keeps then call('ZADD', CRONS, ARGV[14] == '' and '+inf' or ARGV[14], ARGV[9]) end
  return was[1] and 'changed' or 'created'
end
