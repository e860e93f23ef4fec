-- Cancels a workflow that has not ended, with all its jobs that are not active.
--
-- ARGV[9…]
--   id      workflow
--   op      id of this operation; if it is repeated, the first result is returned
--   tenant  the only tenant visible to the caller, or '' for all
--
-- Returns  {'ok', view}, {'missing'} or {'conflict', state}

local ctx = require('lib/context')
local job_module = require('queue/job')
local cancel_job = require('workflows/cancel_job').cancel_job
local record = require('workflows/record')
local workflows = require('workflows/workflow').workflows
local view = require('workflows/view')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load = job_module.load
local workflow_finish, workflow_node, workflow_open = record.finish, record.node, record.open
local workflow_is_in, workflow_view = view.workflow_is_in, view.workflow_view
local call = redis.call

-- Jobs cancelled per call; the tick cancels the rest.
local CANCELLED_PER_CALL = 100

local function run()
  local id, op, tenant = unpack(ctx.args, 9, 11)
  local workflow = workflow_open(id)
  if not workflow or not workflow_is_in(workflow.tenant, tenant) then return {'missing'} end
  if workflow.op == op then return {'ok', workflow_view(workflow.id, tenant)} end
  if workflow.state ~= 'running' then return {'conflict', workflow.state} end
  workflow.op = op
  workflow_finish(workflow, 'cancelled')
  local left = CANCELLED_PER_CALL
  for number = 0, tonumber(call('HGET', workflow.key, 'nodes')) - 1 do
    local node = workflow_node(workflow, number)
    local is_open = node.kind == 'job' and node.state == 'open'
    local job = is_open and left > 0 and job_load(node.id)
    if job then
      cancel_job(job)
      left = left - 1
    elseif is_open then
      workflows.defer(workflow, 'cancel', number)
    end
  end
  commit()
  return {'ok', workflow_view(workflow.id, tenant)}
end

return run
