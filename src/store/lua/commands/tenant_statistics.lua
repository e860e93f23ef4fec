-- Returns a tenant's activity. Read-only.
--
-- ARGV[9…]
--   tenant   tenant
--   minutes  length of the window
--
-- Returns  {its activity in the last 24 hours, its activity in the window, that of all tenants in
--          the window, ms since the window began, 1 if activity is counted}; activity is five
--          numbers as in `did:hH` (`commands/activity_add`)

local ctx = require('lib/context')
local activity_totals = require('tenants/activity_totals')
local runtime = require('lib/runtime')

local int = runtime.int
local MINUTE, activity_totals_of = activity_totals.MINUTE, activity_totals.of

local HOURS, HOUR = 24, 3600000

local function run()
  local tenant, minutes = ctx.args[9], tonumber(ctx.args[10])
  local hour, minute = math.floor(ctx.now / HOUR), math.floor(ctx.now / MINUTE)
  -- This fraction of the first hour is within the last 24 hours.
  local first_part = 1 - ctx.now % HOUR / HOUR
  local first = minute - minutes + 1
  local in_window = activity_totals_of('m', {tenant, '*'}, first, minute)
  return {activity_totals_of('h', {tenant}, hour - HOURS, hour, first_part)[1], in_window[1], in_window[2], int(ctx.now - first * MINUTE),
    ctx.state.throttled and '1' or '0'}
end

return run
