-- Reads a workflow. Changes nothing.
--
-- ARGV[9…] id, the one tenant whose are there or ''
-- Returns  {'ok', view} or {'missing'}

run = function()
  local view = workflow_view(ARGV[9], ARGV[10])
  return view and {'ok', view} or {'missing'}
end
