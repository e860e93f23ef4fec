-- Hands back jobs that never reached their worker.
--
-- ARGV[9…] jobs; for each: id, the attempt under which it was handed out, and when
-- Returns  how many were handed back; a job that has moved on since is left alone

run = function()
  local released = 0
  for at = 10, 7 + tonumber(ARGV[9]) * 3, 3 do
    local job = job_load(ARGV[at])
    if job and job.state == 'active' and job.attempt == tonumber(ARGV[at + 1]) and job.started == ARGV[at + 2] then
      hand_back(job)
      released = released + 1
    end
  end
  commit()
  return released
end
