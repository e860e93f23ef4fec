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
  local kind, subject_id, data = unpack(ctx.args, 9, 11)
  emit(kind, subject(subject_id), data)
  commit()
  return 1
end

return run
