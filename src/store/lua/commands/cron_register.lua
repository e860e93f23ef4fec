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
  local name, before, version, document, timing, next_at, most = unpack(ctx.args, 9, 15)
  local CRONS, key = ctx.prefix .. 'crons', ctx.prefix .. 'cron:' .. name
  local was = call('HMGET', key, 'version', 'timing')
  if was[1] == version then return 'changed' end -- a resend
  if (was[1] or '') ~= before then return 'stale' end
  if not was[1] and call('ZCARD', CRONS) >= tonumber(most) then return 'full' end
  call('HSET', key, 'version', version, 'doc', document, 'timing', timing)
  call('HSETNX', key, 'created', ctx.now_text)
  -- Programs register their crons at each start. A time that is due already must survive that.
  local keeps = was[2] == timing and next_at ~= '' and tonumber(call('ZSCORE', CRONS, name) or nil) ~= math.huge
  if not keeps then call('ZADD', CRONS, next_at == '' and '+inf' or next_at, name) end
  return was[1] and 'changed' or 'created'
end

return run
