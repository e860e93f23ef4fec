-- Part: the jobs that a worker holds.

local function held_by(worker, limit)
  local members = call('ZRANGEBYLEX', P .. 'held', '[' .. worker .. '\31', '(' .. worker .. '\32', 'LIMIT', 0, limit)
  for position, member in ipairs(members) do members[position] = string.sub(member, #worker + 2) end
  return members
end

-- Takes up to `limit` jobs from a worker that is gone; whether that were all, in which case nothing of it remains.
local function take_from(worker, limit, reason, handle)
  local ids = held_by(worker, limit)
  for _, id in ipairs(ids) do
    local job = job_load(id)
    if job and job.state == 'active' then
      handle(job)
      job_save(job)
    else
      gather('ZREM', P .. 'held', worker .. '\31' .. id)
    end
  end
  if #ids < limit then
    local known = call('ZREM', P .. 'workers', worker)
    call('UNLINK', P .. 'worker:' .. worker)
    call('SREM', P .. 'halted', worker)
    if known == 1 then emit('worker.stopped', {id = worker, type = '', queue = ''}, '"reason":"' .. reason .. '"') end
    return #ids, known
  end
  return #ids, 1
end
