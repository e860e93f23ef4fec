-- Returns a job that never reached its worker to its old place in the queue. The attempt does not
-- count.

local job_module = require('queue/job')

local job_make_available, job_save = job_module.make_available, job_module.save
local lease_release = job_module.lease_release

local function hand_back(job)
  lease_release(job)
  job.attempt, job.started = job.attempt - 1, ''
  local enqueued = job.enqueued
  job_make_available(job, true)
  job.enqueued = enqueued
  job_save(job)
end

return {hand_back = hand_back}
