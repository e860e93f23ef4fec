-- Emits an event that does not concern a job.
--
-- Takes
--   kind     string  kind of the event
--   subject  string  its subject
--   data     string  its data, as JSON members
--
-- Returns  true

local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject

local function run()
  local args = packed.read()
  emit(args.kind, subject(args.subject), args.data)
  commit()
  return packed.write(true)
end

return run
