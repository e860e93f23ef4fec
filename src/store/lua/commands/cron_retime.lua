-- Moves the next times of crons to earlier ones after the clock was set back. A cron that fired or
-- changed since it was read is skipped.
--
-- state.cron_shift    value of `state.shift` for which all next times were computed
--
-- ARGV[9…]
--   shift  new value of `state.cron_shift`, or '' if further calls follow
--   …      for each cron: name, next time that was read, new next time
--
-- Returns  number of crons changed

local ctx = require('lib/context')

local call = redis.call

local function run()
  local shift = ctx.args[9]
  local CRONS, changed = ctx.prefix .. 'crons', 0
  for at = 10, #ctx.args, 3 do
    local name, before, after = unpack(ctx.args, at, at + 2)
    if tonumber(call('ZSCORE', CRONS, name) or nil) == tonumber(before) then
      call('ZADD', CRONS, after, name)
      changed = changed + 1
    end
  end
  if shift ~= '' then call('HSET', ctx.prefix .. 'state', 'cron_shift', shift) end
  return changed
end

return run
