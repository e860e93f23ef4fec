-- Takes staged jobs of a Sidekiq out of staging and hands them back to the source that they came from, or puts them into an outbox on
-- their way there. Jobs come newest first.
--
-- outbox:S  list  what is to be put back into source S elsewhere: `origin US sequence US US tenant US text US …`
-- returned  hash  source → last sequence of its outbox
--
-- ARGV[9…] main queue, token of the release, ms for which it holds, call id, 1 if this call is sent again; how the Sidekiq's Redis is
--          reached (`here`, `database` or `outbox`), its database and ours or '', our origin or ''; the source's name, words that say
--          what it is and how many they are (see `restore.lua`); for each job: id, tenant in the gem or '', text
-- Returns  {'ok', ids that are not staged, …}, {'lost'} if the release holds no more, {'locked'} if the gem's locks are not ours

run = function()
  local main, token, life, call_id, way = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[14]
  local release = P .. 'release:' .. main
  local held = call('HMGET', release, 'token', 'last')
  if held[1] ~= token then return {'lost'} end
  local last, missing = match(held[2] or '', '^(%S+)(.*)$')
  local answer = {'ok'}
  if ARGV[13] == '1' and last == call_id then
    for id in string.gmatch(missing, '%S+') do answer[#answer + 1] = id end
    return answer
  end

  local words = tonumber(ARGV[19])
  local source, jobs, texts = {unpack(ARGV, 20, 19 + words)}, {}, {}
  for at = 20 + words, #ARGV, 3 do
    local job = job_load(ARGV[at])
    if job and marked(job, 's') and find(job.push or '', '^d') then
      jobs[#jobs + 1], texts[#texts + 1], texts[#texts + 2] = job, ARGV[at + 1], ARGV[at + 2]
    else
      answer[#answer + 1] = ARGV[at]
    end
  end

  -- Hands the texts over; false if the gem's locks are not ours. Nothing else is written before that.
  local function hand_over()
    if way == 'outbox' then
      -- By the clock, as in `forward.lua`.
      local number = math.max((tonumber(call('HGET', P .. 'returned', ARGV[18]) or nil) or 0) + 1, now * 1000)
      call('RPUSH', P .. 'outbox:' .. ARGV[18], ARGV[17] .. '\31' .. int(number) .. '\31\31' .. concat(texts, '\31'))
      call('HSET', P .. 'returned', ARGV[18], int(number))
      return true
    end
    if way == 'database' then call('SELECT', ARGV[15]) end
    local is_there = restore(call, source, texts)
    if way == 'database' then call('SELECT', ARGV[16]) end
    return is_there
  end

  if #jobs > 0 and not hand_over() then return {'locked'} end
  local keys = {}
  for _, job in ipairs(jobs) do
    job_unstage(job)
    tally(job.tenant, 'pending', -1)
    count(job.queue, 'pending', -1)
    emit('job.released', job, '"main_queue":"' .. main .. '"')
    keys[#keys + 1] = job.key
    if job.apart then keys[#keys + 1] = P .. 'env:' .. job.id end
  end
  if #keys > 0 then call('UNLINK', unpack(keys)) end
  call('HSET', release, 'last', concat({call_id, unpack(answer, 2)}, ' '))
  call('PEXPIRE', release, life)
  commit()
  return answer
end
