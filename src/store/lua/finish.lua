-- Part: the end of a job. It is kept for its retention, and then leaves no key behind.

local SHORTEST = 10000
local KEEP

at_begin(function()
  KEEP = {completed = ARGV[4], cancelled = ARGV[5], discarded = ARGV[6], dead_letter = ARGV[7], forwarded = ARGV[4]}
end)

-- An ended job stands in nobody's way, unless its own policy says that it does, for as long as it is kept.
do -- a script has room for 200 locals

local ENDS = {completed = 'c', cancelled = 'x', discarded = 'd'}
local MOST_ENDED = 64

door.release = function(job, state, keep_ms)
  local key, states = match(job.unique, '^(%S+) (%S+)')
  local set = P .. 'unique:' .. key
  if find(states, ENDS[state], 1, true) then
    call('ZADD', set, int(now + keep_ms), job.id)
    call('ZREMRANGEBYRANK', set, 0, -1 - MOST_ENDED)
  else
    call('ZREM', set, job.id)
  end
  local last = call('ZRANGE', set, -1, -1, 'WITHSCORES')[2]
  if last and tonumber(last) ~= math.huge then call('PEXPIREAT', set, last) end
end

end

-- Moves the job to its last state and saves it.
local function job_finish(job, state, dead)
  job_move(job, state)
  job.finished = now_text
  gather('ZADD', P .. 'finished:' .. state, now_text, job.id)
  if dead then
    gather('ZADD', P .. 'dead', now_text, job.id)
    mark(job, 'd')
  end
  -- Long enough for a call whose answer was lost to find the job when it is sent again.
  local keep_ms = math.max(tonumber(dead and KEEP.dead_letter or KEEP[state]), SHORTEST)
  job_save(job, keep_ms)
  if job.unique then door.release(job, state, keep_ms) end
  if marked(job, 'f') then call('PEXPIRE', P .. 'err:' .. job.id, keep_ms) end
  if marked(job, 'r') then call('PEXPIRE', P .. 'res:' .. job.id, keep_ms) end
  if job.apart then call('PEXPIRE', P .. 'env:' .. job.id, keep_ms) end
  if marked(job, 'p') then call('PEXPIRE', P .. 'prog:' .. job.id, keep_ms) end
  if marked(job, 'k') then call('PEXPIRE', P .. 'chk:' .. job.id, keep_ms) end
end

local function job_erase(id)
  call('UNLINK', P .. 'job:' .. id, P .. 'env:' .. id, P .. 'err:' .. id, P .. 'res:' .. id, P .. 'prog:' .. id,
    P .. 'chk:' .. id)
end
