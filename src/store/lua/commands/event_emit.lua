-- Emits an event that does not concern a job.
--
-- ARGV[9…]
--   kind     kind of the event
--   subject  its subject
--   data     its data, as JSON members
--
-- Returns  1

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject

local function run()
  emit(ctx.args[9], subject(ctx.args[10]), ctx.args[11])
  commit()
  return 1
end

return run
