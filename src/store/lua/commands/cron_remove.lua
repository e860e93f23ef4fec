-- Removes a cron. Its jobs stay.
--
-- ARGV[9…]  name of the cron
--
-- Returns  1, or 0 if it did not exist

local ctx = require('lib/context')

local call = redis.call

local function run()
  call('UNLINK', ctx.prefix .. 'cron:' .. ctx.args[9])
  return call('ZREM', ctx.prefix .. 'crons', ctx.args[9])
end

return run
