-- Hands back jobs that never reached their worker: old place in the queue, and the attempt did not happen.
--
-- ARGV[9…] jobs; for each: id, the attempt under which it was handed out, and when
-- Returns  how many were handed back; a job that has moved on since is left alone

run = function()
  local released = 0
  for at = 10, 7 + tonumber(ARGV[9]) * 3, 3 do
    local job, attempt = job_load(ARGV[at]), tonumber(ARGV[at + 1])
    if job and job.state == 'active' and job.attempt == attempt and job.started == ARGV[at + 2] then
      lease_release(job)
      job.attempt, job.started = attempt - 1, ''
      local enqueued = job.enqueued
      job_make_available(job, true)
      job.enqueued = enqueued
      job_save(job)
      released = released + 1
    end
  end
  commit()
  return released
end
