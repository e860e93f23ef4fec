-- Takes back jobs that another system does not want: they end here, with what it said about them.
--
-- ARGV[9…] for each job: id, members of the history entry, the error as JSON, 1 if it is a dead letter
-- Returns  the ids of those that are gone meanwhile

run = function()
  local gone = {}
  for at = 9, #ARGV, 4 do
    local job = job_load(ARGV[at])
    if not job then
      gone[#gone + 1] = ARGV[at]
    elseif marked(job, 'h') then -- otherwise a call before this one has taken it back
      unmark(job, 'h')
      job_set(job, 'left')
      call('ZREM', P .. 'finished:forwarded', job.id)
      -- Nobody has counted it since it left.
      count(job.queue, job.state, 1)
      tally(job.tenant, job.state, 1)
      record_failure(job, ARGV[at + 1])
      discard(job, ARGV[at + 3] == '1', ARGV[at + 2])
    end
  end
  commit()
  return gone
end
