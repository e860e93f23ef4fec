-- Cancels a job together with its workflow.

local ctx = require('lib/context')
local job_module = require('queue/job')
local detach = require('queue/detach')

local job_save, job_set, mark = job_module.save, job_module.set, job_module.mark
local job_cancel = detach.job_cancel

-- Cancels a job of a workflow that was cancelled. An active job may finish, but is not retried: see
-- `give_up` in `queue/due`.
local function cancel_job(job)
  if job.finished ~= '' then return end
  if job.state == 'active' then
    mark(job, 'c')
    job_set(job, 'expires', ctx.now_text)
    return job_save(job)
  end
  job_cancel(job)
end

return {cancel_job = cancel_job}
