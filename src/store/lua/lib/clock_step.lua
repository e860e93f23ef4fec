-- Accepts a clock that is set back.
--
-- The sorted sets whose scores are times computed from the clock are put aside under another name; the tick then shifts them in
-- portions: see `queue/clock_shift`.

local ctx = require('lib/context')
local event = require('lib/event')
local int = require('lib/number').int
local call = redis.call

local M = {sets = {'leases', 'due', 'wakes', 'deliveries'}, aside = ':before_step'}

-- Accepts a clock that was set back to `now` by `step` ms. False while the tick still works on an earlier step.
M.accept = function(now, step)
  local prefix, state = ctx.prefix, ctx.state
  for _, set in ipairs(M.sets) do
    if call('EXISTS', prefix .. set .. M.aside) == 1 then return false end
  end
  ctx.events, state.shift = ctx.events + 1, int((tonumber(state.shift) or 0) + step)
  -- Written first: a full Redis refuses the first write of a script, and none after it.
  call('HSET', prefix .. 'state', 'clock', int(now), 'shift', state.shift, 'step', int(step), 'events', int(ctx.events))
  for _, set in ipairs(M.sets) do
    if call('EXISTS', prefix .. set) == 1 then call('RENAME', prefix .. set, prefix .. set .. M.aside) end
  end
  local text = event.text('clock.stepped_back', event.subject(''), '"step_ms":' .. int(step))
  call('XADD', prefix .. 'events', '*', 'n', int(ctx.events), 't', int(now), 'e', text)
  return true
end

return M
