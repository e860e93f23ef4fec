-- Accepts a clock that was set back.
--
-- Keys:
-- SET:before_step  zset  the entries of SET at that time, for each SET in `sets`
-- state.shift      ms by which the clock was set back in all
-- state.step       ms of the last step, while entries are still to be shifted
--
-- The scores of these sets are times computed from the clock. `accept` renames the sets, and the
-- tick shifts their entries in portions (`queue/clock_shift`).

local ctx = require('lib/context')
local event = require('lib/event')
local int = require('lib/number').int
local call = redis.call

local M = {sets = {'leases', 'due', 'wakes', 'deliveries'}, aside = ':before_step'}

-- Accepts a clock that was set back to `now` by `step` ms. Returns false without changing anything
-- if the tick has not finished shifting the entries of an earlier step.
M.accept = function(now, step)
  local prefix, state = ctx.prefix, ctx.state
  for _, set in ipairs(M.sets) do
    if call('EXISTS', prefix .. set .. M.aside) == 1 then return false end
  end
  ctx.events, state.shift = ctx.events + 1, int((tonumber(state.shift) or 0) + step)
  -- This write comes first: if Redis is out of memory it refuses the first write of a script, and
  -- none after it. So the step is never half accepted.
  call('HSET', prefix .. 'state', 'clock', int(now), 'shift', state.shift, 'step', int(step), 'events', int(ctx.events))
  for _, set in ipairs(M.sets) do
    if call('EXISTS', prefix .. set) == 1 then call('RENAME', prefix .. set, prefix .. set .. M.aside) end
  end
  local text = event.text('clock.stepped_back', event.subject(''), '"step_ms":' .. int(step))
  call('XADD', prefix .. 'events', '*', 'n', int(ctx.events), 't', int(now), 'e', text)
  return true
end

return M
