-- Reads a workflow. Changes nothing.
--
-- ARGV[9…] id, the one tenant whose are there or '', 1 if what workers reported is wanted
-- Returns  {'ok', view} or {'missing'}

run = function()
  local view = workflow_view(ARGV[9], ARGV[10], ARGV[11] == '1')
  return view and {'ok', view} or {'missing'}
end
