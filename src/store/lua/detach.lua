-- Part: taking a job that has not ended out of whatever holds it.

local function job_detach(job)
  if job.state == 'active' then return lease_release(job) end
  if job.state == 'available' then lane_remove(job) end
  if marked(job, 's') then job_unstage(job) end
  gather('ZREM', DUE, job.id)
end

-- Cancels a job that has not ended; `more` are further members of the event's data.
local function job_cancel(job, more)
  local previous = job.state
  job_detach(job)
  job_finish(job, 'cancelled')
  emit('job.cancelled', job, '"state":"cancelled","previous_state":"' .. previous .. '"' .. (more or ''))
end
