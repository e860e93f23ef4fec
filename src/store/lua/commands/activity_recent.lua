-- Returns the work of tenants within the last minute. Read-only.
--
-- ARGV[9…]  names of tenants
--
-- Returns  for each tenant `ended ms`: number of attempts that ended and their average duration, or
--          `0 -` if there were none; an empty list while activity is not counted

local ctx = require('lib/context')
local activity_totals = require('tenants/activity_totals')
local runtime = require('lib/runtime')

local int = runtime.int
local MINUTE, activity_totals_of = activity_totals.MINUTE, activity_totals.of
local match = string.match

local function ended_in(text)
  local completed, failed, ms = match(text, '^%d+ %d+ (%d+) (%d+) (%d+)$')
  return completed + failed, tonumber(ms)
end

local function run()
  local answer, names, minute = {}, {unpack(ctx.args, 9)}, math.floor(ctx.now / MINUTE)
  if not ctx.state.throttled then return answer end
  -- The last 60 s cover the current minute and this fraction of the one before. The number of
  -- attempts is weighted by it; the average duration is taken over both minutes.
  local part = 1 - ctx.now % MINUTE / MINUTE
  local previous, current = activity_totals_of('m', names, minute - 1, minute - 1), activity_totals_of('m', names, minute, minute)
  for place = 1, #names do
    local before, before_ms = ended_in(previous[place])
    local ended, ms = ended_in(current[place])
    local all = before + ended
    answer[place] = int(before * part + ended + 0.5) .. ' ' .. (all > 0 and int((before_ms + ms) / all) or '-')
  end
  return answer
end

return run
