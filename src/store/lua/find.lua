-- Looks for jobs among all keys, a portion a call. Changes nothing.
--
-- ARGV[9…] Redis' cursor or '' to look at no key, keys to look at, queue or '', states separated by blanks or '', type or '' (a `*` at
--          its end stands for anything), created at or after, and at or before, or '', tenant or '', jobs that are wanted or '' for
--          all, ids of jobs to look at first
-- Returns  {cursor or '' at the end, id, state, created, due or '', priority, queue, …}; a few jobs more than are wanted

-- Keys looked at by one SCAN if only some jobs are wanted: so many may be found in vain.
local STEP = 16

run = function()
  local queue, states, kind, since, til = ARGV[11], ' ' .. ARGV[12] .. ' ', ARGV[13], tonumber(ARGV[14]), tonumber(ARGV[15])
  local tenant = ARGV[16]
  local prefix = match(kind, '^(.*)%*$')
  local from = #P + 5 -- behind `job:`
  local cursor, left, room = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[17])
  local answer = {''}

  local function fits(job)
    if queue ~= '' and job.queue ~= queue then return false end
    if tenant ~= '' and (job.tenant or '_default') ~= tenant then return false end
    if ARGV[12] ~= '' and not find(states, ' ' .. job.state .. ' ', 1, true) then return false end
    if prefix then
      if string.sub(job.type, 1, #prefix) ~= prefix then return false end
    elseif kind ~= '' and job.type ~= kind then
      return false
    end
    local created = tonumber(job.created)
    return (not since or created >= since) and (not til or created <= til)
  end

  local function look_at(id)
    local job = job_load(id)
    if job and fits(job) then
      local at = #answer
      answer[at + 1], answer[at + 2], answer[at + 3] = job.id, job.state, job.created
      answer[at + 4], answer[at + 5], answer[at + 6] = job.due or '', job.priority or '0', job.queue
      room = room and room - 1
    end
  end

  for place = 18, #ARGV do look_at(ARGV[place]) end
  while cursor ~= '' and left > 0 and (not room or room > 0) do
    local step = room and math.min(STEP, room, left) or left
    local found = call('SCAN', cursor, 'MATCH', P .. 'job:*', 'COUNT', int(step))
    left, cursor = left - step, found[1] ~= '0' and found[1] or ''
    for _, key in ipairs(found[2]) do look_at(string.sub(key, from)) end
  end
  answer[1] = cursor
  return answer
end
