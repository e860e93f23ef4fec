-- Cancels a workflow that has not ended, with all its jobs that are not active.
--
-- Takes
--   id      string  workflow
--   op      string  id of this operation; if it is repeated, the first result is returned
--   tenant  string  the only tenant visible to the caller, or '' for all
--
-- Returns  {done: …} with the view (`workflows/view`), `missing`, or {ended: string} with the state

local packed = require('lib/packed')
local job_module = require('queue/job')
local cancel_job = require('workflows/cancel_job').cancel_job
local record = require('workflows/record')
local workflows = require('workflows/workflow').workflows
local view = require('workflows/view')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load = job_module.load
local workflow_finish, workflow_node, workflow_open = record.finish, record.node, record.open
local summary, workflow_view = view.summary, view.workflow_view
local write = packed.write
local call = redis.call

-- Jobs cancelled per call; the tick cancels the rest.
local CANCELLED_PER_CALL = 100

local function run()
  local args = packed.read()
  local id, tenant = args.id, args.tenant
  local workflow = summary(id, tenant) and workflow_open(id)
  if not workflow then return write('missing') end
  if workflow.op == args.op then return write({done = workflow_view(id, tenant)}) end
  if workflow.state ~= 'running' then return write({ended = workflow.state}) end
  workflow.op = args.op
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
  return write({done = workflow_view(id, tenant)})
end

return run
