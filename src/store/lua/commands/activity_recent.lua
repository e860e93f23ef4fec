-- Returns the work of tenants within the last minute. Read-only.
--
-- Takes
--   tenants  list of string
--
-- Returns  list of {ended: number, runtime_ms: number?} for each tenant: attempts that ended and
--          their average duration; nil while activity is not counted

local ctx = require('lib/context')
local activity_totals = require('tenants/activity_totals')
local packed = require('lib/packed')

local MINUTE, activity_totals_of = activity_totals.MINUTE, activity_totals.of
local floor = math.floor

local function run()
  local names, minute = packed.read().tenants, floor(ctx.now / MINUTE)
  if not ctx.state.throttled then return packed.write(nil) end
  -- The last 60 s cover the current minute and this fraction of the one before. The number of
  -- attempts is weighted by it; the average duration is taken over both minutes.
  local part = 1 - ctx.now % MINUTE / MINUTE
  local previous, current = activity_totals_of('m', names, minute - 1, minute - 1), activity_totals_of('m', names, minute, minute)
  local attempts = {}
  for place, before in ipairs(previous) do
    local now = current[place]
    local ended_before, ended = before.completed + before.failed, now.completed + now.failed
    local all = ended_before + ended
    attempts[place] = {ended = floor(ended_before * part + ended + 0.5),
      runtime_ms = all > 0 and floor((before.worker_ms + now.worker_ms) / all) or nil}
  end
  return packed.write(attempts)
end

return run
