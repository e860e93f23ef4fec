-- Registers a cron or changes it.
--
-- crons      zset  crons by their next time, +inf while disabled
-- cron:NAME  hash  doc: what the client registered, read only by Rust; version: changes with each
--                  change; timing: the values that its times depend on; created; last: the last
--                  time for which it fired; runs; job: the last job it created
--
-- Takes
--   name      string   cron
--   before    string?  version that it must have; nil if it must not exist
--   version   string   new version
--   document  string   new document
--   timing    string   new timing
--   next      number?  next time; nil while disabled
--   most      number   most crons that may exist
--
-- Returns  `created`, `changed`, `stale` if it has another version, or `full`

local ctx = require('lib/context')
local packed = require('lib/packed')

local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local CRONS, key = ctx.prefix .. 'crons', ctx.prefix .. 'cron:' .. args.name
  local was = call('HMGET', key, 'version', 'timing')
  if was[1] == args.version then return write('changed') end -- a resend
  if (was[1] or nil) ~= args.before then return write('stale') end
  if not was[1] and call('ZCARD', CRONS) >= args.most then return write('full') end
  call('HSET', key, 'version', args.version, 'doc', args.document, 'timing', args.timing)
  call('HSETNX', key, 'created', ctx.now_text)
  -- Programs register their crons at each start. A time that is due already must survive that.
  local keeps = was[2] == args.timing and args.next and tonumber(call('ZSCORE', CRONS, args.name) or nil) ~= math.huge
  if not keeps then call('ZADD', CRONS, args.next or '+inf', args.name) end
  return write(was[1] and 'changed' or 'created')
end

return run
