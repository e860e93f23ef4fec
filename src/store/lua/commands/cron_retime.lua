-- Sets crons to earlier times, because the clock was set back. A cron that was fired or changed since it was read is left alone.
--
-- state.cron_shift  `state.shift` as of which all next times are computed
--
-- ARGV[9…] the `state.shift` as of which that is now so for all crons, or '' if more are to come; then for each cron: its name, the next
--          time that was read, the new one
-- Returns  how many were changed

local ctx = require('lib/context')

local call = redis.call

local function run()
  local CRONS, changed = ctx.prefix .. 'crons', 0
  for at = 10, #ctx.args, 3 do
    local name, before, after = ctx.args[at], ctx.args[at + 1], ctx.args[at + 2]
    if tonumber(call('ZSCORE', CRONS, name) or nil) == tonumber(before) then
      call('ZADD', CRONS, after, name)
      changed = changed + 1
    end
  end
  if ctx.args[9] ~= '' then call('HSET', ctx.prefix .. 'state', 'cron_shift', ctx.args[9]) end
  return changed
end

return run
