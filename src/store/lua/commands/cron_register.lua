-- Registers a cron or changes it.
--
-- crons      zset  crons by their next time, +inf while disabled
-- cron:NAME  hash  doc: what the client registered, read only by Rust; version: changes with each
--                  change; timing: the values that its times depend on; created; last: the last
--                  time for which it fired; runs; job: the last job it created
--
-- ARGV[9…]
--   name      cron
--   before    version that it must have, or '' if it must not exist
--   version   new version
--   document  new document
--   timing    new timing
--   next_at   next time, or '' while disabled
--   most      most crons that may exist
--
-- Returns  'created', 'changed', 'stale' if it has another version, or 'full'

local ctx = require('lib/context')

local call = redis.call

local function run()
  local CRONS, key = ctx.prefix .. 'crons', ctx.prefix .. 'cron:' .. ctx.args[9]
  local was = call('HMGET', key, 'version', 'timing')
  if was[1] == ctx.args[11] then return 'changed' end -- a resend
  if (was[1] or '') ~= ctx.args[10] then return 'stale' end
  if not was[1] and call('ZCARD', CRONS) >= tonumber(ctx.args[15]) then return 'full' end
  call('HSET', key, 'version', ctx.args[11], 'doc', ctx.args[12], 'timing', ctx.args[13])
  call('HSETNX', key, 'created', ctx.now_text)
  -- Programs register their crons at each start. A time that is due already must survive that.
  local keeps = was[2] == ctx.args[13] and ctx.args[14] ~= '' and tonumber(call('ZSCORE', CRONS, ctx.args[9]) or nil) ~= math.huge
  if not keeps then call('ZADD', CRONS, ctx.args[14] == '' and '+inf' or ctx.args[14], ctx.args[9]) end
  return was[1] and 'changed' or 'created'
end

return run
