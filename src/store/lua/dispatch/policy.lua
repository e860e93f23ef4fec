-- The strategy of a fetch where there are limits, tenants that take turns, pools or settings of queues: see `dispatch/fetch`.

-- Modules that only take part.
require('dispatch/reshard')
local choose = require('dispatch/choose')
local park = require('limits/park')
local stop = require('dispatch/stop')
local tenant_filter = require('dispatch/tenant_filter')
local turn = require('dispatch/turn')

return {
  is_simple = false,
  admit = turn.admit, turn_open = turn.open, turn_next = turn.next, turns_close = turn.turns_close,
  lease_under = turn.lease_under, put_off_ends = turn.put_off_ends, limit_usage = turn.limit_usage,
  tenant_next = tenant_filter.tenant_next, levels_close = choose.levels_close, wake_due = park.wake_due,
  is_unfinished = function() return stop.unfinished end,
  notes = function() return park.notes end,
}
