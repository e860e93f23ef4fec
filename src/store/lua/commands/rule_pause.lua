-- Pauses or resumes a plan rule and signals its planners.
--
-- Takes
--   rule    string   rule
--   pauses  boolean  true to pause, false to resume
--   by      string   the actor, as JSON
--
-- Returns  true, or false if the rule does not exist

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local call = redis.call

local function run()
  local args = packed.read()
  local rule, pauses = args.rule, args.pauses
  local key = ctx.prefix .. 'plan:' .. rule
  if call('HEXISTS', key, 'state') == 0 then return packed.write(false) end
  if (call('HGET', key, 'paused') == '1') ~= pauses then
    call('HSET', key, 'paused', pauses and '1' or '0')
    emit(pauses and 'planner.paused' or 'planner.resumed', subject(rule), '"by":' .. args.by)
    commit()
  end
  if not pauses then redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. rule) end
  return packed.write(true)
end

return run
