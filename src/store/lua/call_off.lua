-- Cancels a workflow that has not ended, with all of its jobs that are not active.
--
-- ARGV[9…] id, op, the one tenant whose are there or ''
-- Returns  {'ok', view}, {'missing'} or {'conflict', state}

-- Jobs that one call cancels; the tick cancels the others.
local CANCELLED_A_CALL = 100

run = function()
  local workflow = workflow_open(ARGV[9])
  if not workflow or not workflow_is_in(workflow.tenant, ARGV[11]) then return {'missing'} end
  if workflow.op == ARGV[10] then return {'ok', workflow_view(workflow.id, ARGV[11])} end
  if workflow.state ~= 'running' then return {'conflict', workflow.state} end
  workflow.op = ARGV[10]
  workflow_finish(workflow, 'cancelled')
  local left = CANCELLED_A_CALL
  for number = 0, tonumber(call('HGET', workflow.key, 'nodes')) - 1 do
    local node = workflow_node(workflow, number)
    local is_open = node.kind == 'job' and node.state == 'open'
    local job = is_open and left > 0 and job_load(node.id)
    if job then
      workflows.cancel_job(job)
      left = left - 1
    elseif is_open then
      workflows.later(workflow, 'cancel', number)
    end
  end
  commit()
  return {'ok', workflow_view(workflow.id, ARGV[11])}
end
