-- Sets crons to earlier times, because the clock was set back. A cron that was fired or changed since it was read is left alone.
--
-- state.cron_shift  `state.shift` as of which all next times are computed
--
-- ARGV[9…] the `state.shift` as of which that is now so for all crons, or '' if more are to come; then for each cron: its name, the next
--          time that was read, the new one
-- Returns  how many were changed

run = function()
  local CRONS, changed = P .. 'crons', 0
  for at = 10, #ARGV, 3 do
    local name, before, after = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    if tonumber(call('ZSCORE', CRONS, name) or nil) == tonumber(before) then
      call('ZADD', CRONS, after, name)
      changed = changed + 1
    end
  end
  if ARGV[9] ~= '' then call('HSET', P .. 'state', 'cron_shift', ARGV[9]) end
  return changed
end
