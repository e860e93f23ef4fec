-- Stores new jobs. Each request is all or nothing; requests of one call are independent.
--
-- ARGV[9…] requests, then for each: op ('' where the server made the ids: then an id is proof enough), jobs,
--          1 if ids may exist already (sent by the client, or this is a resend), version of the plan rules it was read under;
--          for each job: its words, see `store.lua`
-- Returns  for each request `ok US created US state US due US state US due …`, `duplicate US index US id`, `stale` if other
--          rules hold now, `full US rule US most US staged` or `error US text`

-- A request whose answer was lost is sent again with the same op: its jobs are there, and it gets the first answer.
local function replay(op, first, jobs)
  local parts, created = {}, nil
  for index = 0, jobs - 1 do
    local stored = job_load(ARGV[first + index * WORDS])
    if stored then
      if op ~= '' and stored.by ~= op then return 'duplicate\31' .. index .. '\31' .. stored.id end
      created = stored.created
      parts[index + 1] = stored.state .. '\31' .. (stored.due or '')
    else
      parts[index + 1] = 'completed\31' -- gone since, if the others are there
    end
  end
  return created and 'ok\31' .. created .. '\31' .. concat(parts, '\31')
end

local function enqueue(op, first, jobs, may_exist, version)
  local replayed = may_exist and replay(op, first, jobs)
  if replayed then return replayed end
  if version ~= (state[6] or '') then return 'stale' end
  local full = version ~= '' and over_bound(ARGV, first, jobs)
  if full then return full end
  if jobs == 1 then return 'ok\31' .. now_text .. '\31' .. job_store(op, ARGV, first) end
  local parts = {}
  for index = 1, jobs do parts[index] = job_store(op, ARGV, first + (index - 1) * WORDS) end
  return 'ok\31' .. now_text .. '\31' .. concat(parts, '\31')
end

run = function()
  local answers, at = {}, 10
  for request = 1, tonumber(ARGV[9]) do
    local jobs = tonumber(ARGV[at + 1])
    local result = guarded(enqueue, ARGV[at], at + 4, jobs, ARGV[at + 2] == '1', ARGV[at + 3])
    answers[request] = type(result) == 'table' and concat(result, '\31') or result
    at = at + 4 + jobs * WORDS
  end
  settle()
  for queue in pairs(counts) do call('HSETNX', P .. 'queues', queue, now_text) end
  commit()
  return answers
end
