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
  local job = job_load(ctx.args[9], ctx.args[11])
  if not job then return {'missing'} end
  if job.op == ctx.args[10] then return {'ok', job_view(job), ''} end
  if job.finished ~= '' or ctx.args[12] == '1' and job.state == 'active' then return {'conflict', job.state, ''} end
  local previous = job.state
  job.op = ctx.args[10]
  job_cancel(job)
  commit()
  return {'ok', job_view(job), previous}
end

return run
