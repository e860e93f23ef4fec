-- Part: taking a job that has not ended out of whatever holds it.

local function job_detach(job)
  if job.state == 'active' then return lease_release(job) end
  if job.state == 'available' then lane_remove(job) end
  if marked(job, 's') then job_unstage(job) end
  gather('ZREM', DUE, job.id)
end
