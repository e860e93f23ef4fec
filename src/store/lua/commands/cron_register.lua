-- Registers a cron, or changes it.
--
-- crons      zset  crons by their next time; +inf while disabled
-- cron:NAME  hash  doc (what its client registered, which only Rust reads), version (another one after each change), timing (what its
--                  times depend on), created; last (the time it last fired for), runs, job (the last one it made)
--
-- ARGV[9…] name, version that it must have ('' if it must not exist), new version, document, timing, next time or '' while disabled,
--          most crons there may be
-- Returns  'created', 'changed', 'stale' if it has another version, or 'full'

local ctx = require('lib/context')

local call = redis.call

local function run()
  local CRONS, key = ctx.prefix .. 'crons', ctx.prefix .. 'cron:' .. ctx.args[9]
  local was = call('HMGET', key, 'version', 'timing')
  if was[1] == ctx.args[11] then return 'changed' end -- sent again
  if (was[1] or '') ~= ctx.args[10] then return 'stale' end
  if not was[1] and call('ZCARD', CRONS) >= tonumber(ctx.args[15]) then return 'full' end
  call('HSET', key, 'version', ctx.args[11], 'doc', ctx.args[12], 'timing', ctx.args[13])
  call('HSETNX', key, 'created', ctx.now_text)
  -- Programs register their crons anew whenever they start: a time that is due already must not be lost by that.
  local keeps = was[2] == ctx.args[13] and ctx.args[14] ~= '' and tonumber(call('ZSCORE', CRONS, ctx.args[9]) or nil) ~= math.huge
  if not keeps then call('ZADD', CRONS, ctx.args[14] == '' and '+inf' or ctx.args[14], ctx.args[9]) end
  return was[1] and 'changed' or 'created'
end

return run
