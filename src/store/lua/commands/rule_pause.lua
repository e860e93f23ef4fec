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
  local key = ctx.prefix .. 'plan:' .. ctx.args[9]
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  if (call('HGET', key, 'paused') or '0') ~= ctx.args[10] then
    call('HSET', key, 'paused', ctx.args[10])
    emit(ctx.args[10] == '1' and 'planner.paused' or 'planner.resumed', subject(ctx.args[9]), '"by":' .. ctx.args[11])
    commit()
  end
  if ctx.args[10] == '0' then redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. ctx.args[9]) end
  return 1
end

return run
