-- Returns a tenant's activity. Read-only.
--
-- Takes
--   tenant   string
--   minutes  number  length of the window
--
-- Returns
--   counted  boolean  true if activity is counted
--   span     number   ms since the window began
--   day      its activity in the last 24 hours (`tenants/activity_totals`)
--   window   its activity in the window
--   all      that of all tenants in the window

local ctx = require('lib/context')
local packed = require('lib/packed')
local activity_totals = require('tenants/activity_totals')

local MINUTE, activity_totals_of = activity_totals.MINUTE, activity_totals.of

local HOURS, HOUR = 24, 3600000

local function run()
  local args = packed.read()
  local tenant = args.tenant
  local hour, minute = math.floor(ctx.now / HOUR), math.floor(ctx.now / MINUTE)
  -- This fraction of the first hour is within the last 24 hours.
  local first_part = 1 - ctx.now % HOUR / HOUR
  local first = minute - args.minutes + 1
  local in_window = activity_totals_of('m', {tenant, '*'}, first, minute)
  return packed.write({counted = not not ctx.state.throttled, span = ctx.now - first * MINUTE, window = in_window[1],
    all = in_window[2], day = activity_totals_of('h', {tenant}, hour - HOURS, hour, first_part)[1]})
end

return run
