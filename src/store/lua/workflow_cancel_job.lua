-- Part: how a job is cancelled together with its workflow.

-- What is active may finish, but does not wait again: see `give_up` in `sweep.lua`.
workflows.cancel_job = function(job)
  if job.finished ~= '' then return end
  if job.state == 'active' then
    mark(job, 'c')
    job_set(job, 'expires', now_text)
    return job_save(job)
  end
  job_cancel(job)
end
