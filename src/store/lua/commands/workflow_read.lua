-- Reads a workflow. Read-only.
--
-- ARGV[9…]
--   id        workflow
--   tenant    the only tenant visible to the caller, or '' for all
--   progress  1 to include the progress that workers reported
--
-- Returns  {'ok', view} or {'missing'}

local ctx = require('lib/context')
local view_module = require('workflows/view')

local workflow_view = view_module.workflow_view

local function run()
  local id, tenant, progress = unpack(ctx.args, 9, 11)
  local view = workflow_view(id, tenant, progress == '1')
  return view and {'ok', view} or {'missing'}
end

return run
