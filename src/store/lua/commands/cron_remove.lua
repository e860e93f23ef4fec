-- Removes a cron. Its jobs stay.
--
-- Takes
--   name  string  cron
--
-- Returns  true, or false if it did not exist

local ctx = require('lib/context')
local packed = require('lib/packed')

local call = redis.call

local function run()
  local args = packed.read()
  call('UNLINK', ctx.prefix .. 'cron:' .. args.name)
  return packed.write(call('ZREM', ctx.prefix .. 'crons', args.name) == 1)
end

return run
