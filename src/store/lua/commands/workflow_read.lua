-- Reads a workflow. Read-only.
--
-- Takes
--   id        string   workflow
--   tenant    string   the only tenant visible to the caller, or '' for all
--   progress  boolean  true to include the progress that workers reported
--
-- Returns  the view (`workflows/view`), or nil if it does not exist

local packed = require('lib/packed')
local view = require('workflows/view')

local workflow_view = view.workflow_view

local function run()
  local args = packed.read()
  return packed.write(workflow_view(args.id, args.tenant, args.progress))
end

return run
