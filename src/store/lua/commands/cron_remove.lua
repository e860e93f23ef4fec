-- Removes a cron. Its jobs stay.
--
-- ARGV[9…]  name of the cron
--
-- Returns  1, or 0 if it did not exist

local ctx = require('lib/context')

local call = redis.call

local function run()
  local name = ctx.args[9]
  call('UNLINK', ctx.prefix .. 'cron:' .. name)
  return call('ZREM', ctx.prefix .. 'crons', name)
end

return run
