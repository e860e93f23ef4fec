-- Part: hands back a job that never reached its worker: old place in the queue, and the attempt did not happen.

local function hand_back(job)
  lease_release(job)
  job.attempt, job.started = job.attempt - 1, ''
  local enqueued = job.enqueued
  job_make_available(job, true)
  job.enqueued = enqueued
  job_save(job)
end
