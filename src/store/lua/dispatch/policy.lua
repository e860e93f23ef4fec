-- The strategy of a fetch if there are limits, tenants that take turns, pools or settings of queues
-- (`commands/fetch`). `dispatch/simple` is the other one and has the same functions.

local choose = require('dispatch/choose')
local lease_limits = require('dispatch/lease_limits')
local levels = require('dispatch/levels')
local park = require('limits/park')
local reshard = require('dispatch/reshard')
local source = require('dispatch/source')
local stop = require('dispatch/stop')
local tenant_filter = require('dispatch/tenant_filter')
local turn = require('dispatch/turn')

local CHOOSER = {open = choose.source_open, choose = choose.lane_choose, ensure_lane = reshard.ensure_lane, popped = choose.lane_popped,
  drained = stop.lane_drained, is_empty = choose.is_empty}

return {
  begin = function() source.use(CHOOSER) end,
  admit = lease_limits.admit, turn_open = turn.open, turn_next = turn.next, turns_close = turn.turns_close,
  lease_under = lease_limits.lease_under, report_postponed = lease_limits.report_postponed,
  limit_usage = lease_limits.limit_usage,
  tenant_next = tenant_filter.tenant_next, levels_close = levels.close, wake_due = park.wake_due,
  is_unfinished = function() return stop.unfinished end,
  metrics = function() return park.metrics end,
}
