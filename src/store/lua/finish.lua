-- Part: the end of a job. It is kept for its retention, and then leaves no key behind.

local KEEP = {completed = ARGV[4], cancelled = ARGV[5], discarded = ARGV[6], dead_letter = ARGV[7]}

local function job_keep_for(job, ms)
  if ms == '0' then ms = 1 end -- 0 would delete at once, and the save that follows would bring the record back without a TTL
  call('PEXPIRE', P .. 'job:' .. job.id, ms)
  call('PEXPIRE', P .. 'env:' .. job.id, ms)
  if job.failures then call('PEXPIRE', P .. 'err:' .. job.id, ms) end
  if job.result then call('PEXPIRE', P .. 'res:' .. job.id, ms) end
end

local function job_finish(job, state, dead)
  job_move(job, state)
  job_set(job, 'finished', now_text)
  gather('ZADD', P .. 'finished:' .. state, now_text, job.id)
  if dead then
    gather('ZADD', P .. 'dead', now_text, job.id)
    job_set(job, 'dead', 1)
  end
  job_keep_for(job, dead and KEEP.dead_letter or KEEP[state])
end

local function job_erase(id)
  call('UNLINK', P .. 'job:' .. id, P .. 'env:' .. id, P .. 'err:' .. id, P .. 'res:' .. id)
end
