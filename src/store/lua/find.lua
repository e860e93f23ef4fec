-- Looks for jobs among all keys, a portion a call. Changes nothing.
--
-- ARGV[9…] cursor, keys to look at, queue or '', states separated by blanks or '', type or '' (a `*` at its end stands for anything),
--          created at or after, and at or before, or '', tenant or ''
-- Returns  {cursor or '0' at the end, id, state, created, due or '', priority, queue, …}

run = function()
  local queue, states, kind, since, til = ARGV[11], ' ' .. ARGV[12] .. ' ', ARGV[13], tonumber(ARGV[14]), tonumber(ARGV[15])
  local tenant = ARGV[16]
  local prefix = match(kind, '^(.*)%*$')
  local from = #P + 5 -- behind `job:`

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

  local found = call('SCAN', ARGV[9], 'MATCH', P .. 'job:*', 'COUNT', ARGV[10])
  local answer = {found[1]}
  for _, key in ipairs(found[2]) do
    local job = job_load(string.sub(key, from))
    if job and fits(job) then
      local at = #answer
      answer[at + 1], answer[at + 2], answer[at + 3] = job.id, job.state, job.created
      answer[at + 4], answer[at + 5], answer[at + 6] = job.due or '', job.priority or '0', job.queue
    end
  end
  return answer
end
