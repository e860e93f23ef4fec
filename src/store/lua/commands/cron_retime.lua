-- Moves the next times of crons to earlier ones after the clock was set back. A cron that fired or
-- changed since it was read is skipped.
--
-- state.cron_shift    value of `state.shift` for which all next times were computed
--
-- Takes
--   shift  string?  new value of `state.cron_shift`; nil if further calls follow
--   crons  list of {name: string, before: number, after: number}  the next time that was read, and
--          the new one
--
-- Returns  number of crons changed

local ctx = require('lib/context')
local packed = require('lib/packed')

local call = redis.call

local function run()
  local args = packed.read()
  local CRONS, changed = ctx.prefix .. 'crons', 0
  for _, cron in ipairs(args.crons) do
    if tonumber(call('ZSCORE', CRONS, cron.name) or nil) == cron.before then
      call('ZADD', CRONS, cron.after, cron.name)
      changed = changed + 1
    end
  end
  if args.shift then call('HSET', ctx.prefix .. 'state', 'cron_shift', args.shift) end
  return packed.write(changed)
end

return run
