-- Returns the time since which the oldest runnable job of a queue is available. Read-only.
--
-- ARGV[9]  queue
--
-- Returns  ms, or '' if no job may run

local ctx = require('lib/context')
local plan = require('staging/plan')
local runtime = require('lib/runtime')

local int = runtime.int
local queue_oldest = plan.queue_oldest

local function run()
  local queue = ctx.args[9]
  local oldest = queue_oldest(queue)
  return oldest and int(oldest) or ''
end

return run
