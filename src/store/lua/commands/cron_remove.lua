-- Removes a cron. Jobs that it made stay.
--
-- ARGV[9…] name
-- Returns  1 if there was one

local ctx = require('lib/context')

local call = redis.call

local function run()
  call('UNLINK', ctx.prefix .. 'cron:' .. ctx.args[9])
  return call('ZREM', ctx.prefix .. 'crons', ctx.args[9])
end

return run
