-- Part: taking a job that has not ended out of whatever holds it.

local function job_detach(job)
  if job.state == 'available' then
    lane_remove(job.queue, job.lane or 'p0', job.id)
  elseif job.state == 'active' then
    lease_release(job)
  end
  if job.state ~= 'active' then gather('ZREM', P .. 'due', job.id) end
end
