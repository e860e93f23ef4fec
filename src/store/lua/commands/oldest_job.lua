-- Returns the time since which the oldest runnable job of a queue is available. Read-only.
--
-- Takes
--   queue  string  queue
--
-- Returns  number of ms, or nil if no job may run

local packed = require('lib/packed')
local plan = require('staging/plan')

local queue_oldest = plan.queue_oldest

local function run()
  local args = packed.read()
  return packed.write(queue_oldest(args.queue))
end

return run
