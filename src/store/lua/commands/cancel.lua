-- Cancels a job that has not ended.
--
-- ARGV[9…]
--   id             job
--   op             id of this operation; if it is repeated, the first result is returned
--   tenant         the only tenant visible to the caller, or '' for all
--   spares_active  1 to refuse if the job is active
--
-- Returns  {'ok', job view, previous state}, {'missing'} or {'conflict', state, ''}

-- Required for its commit phase: advances the workflow of the job.
require('workflows/workflow')

local ctx = require('lib/context')
local job_module = require('queue/job')
local detach = require('queue/detach')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load, job_view = job_module.load, job_module.view
local job_cancel = detach.job_cancel

local function run()
  local id, op, tenant, spares_active = unpack(ctx.args, 9, 12)
  local job = job_load(id, tenant)
  if not job then return {'missing'} end
  if job.op == op then return {'ok', job_view(job), ''} end
  if job.finished ~= '' or spares_active == '1' and job.state == 'active' then return {'conflict', job.state, ''} end
  local previous = job.state
  job.op = op
  job_cancel(job)
  commit()
  return {'ok', job_view(job), previous}
end

return run
