-- Pauses or resumes a plan rule and signals its planners.
--
-- ARGV[9…]
--   rule    rule
--   pauses  1 to pause, 0 to resume
--   by      the actor, as JSON
--
-- Returns  1, or 0 if the rule does not exist

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local call = redis.call

local function run()
  local rule, pauses, by = unpack(ctx.args, 9, 11)
  local key = ctx.prefix .. 'plan:' .. rule
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  if (call('HGET', key, 'paused') or '0') ~= pauses then
    call('HSET', key, 'paused', pauses)
    emit(pauses == '1' and 'planner.paused' or 'planner.resumed', subject(rule), '"by":' .. by)
    commit()
  end
  if pauses == '0' then redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. rule) end
  return 1
end

return run
