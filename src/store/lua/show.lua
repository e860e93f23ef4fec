-- Reads a workflow. Changes nothing.
--
-- ARGV[9…] id
-- Returns  {'ok', view} or {'missing'}

run = function()
  local view = workflow_view(ARGV[9])
  return view and {'ok', view} or {'missing'}
end
