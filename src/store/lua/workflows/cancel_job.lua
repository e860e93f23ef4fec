-- Cancels a job together with its workflow. Sets `workflows.cancel_job`.

local ctx = require('lib/context')
local job_module = require('queue/job')
local workflow = require('workflows/workflow')
local detach = require('queue/detach')

local job_save, job_set, mark = job_module.save, job_module.set, job_module.mark
local workflows = workflow.workflows
local job_cancel = detach.job_cancel

-- An active job may finish, but is not retried: see `give_up` in `queue/due`.
workflows.cancel_job = function(job)
  if job.finished ~= '' then return end
  if job.state == 'active' then
    mark(job, 'c')
    job_set(job, 'expires', ctx.now_text)
    return job_save(job)
  end
  job_cancel(job)
end

return true
