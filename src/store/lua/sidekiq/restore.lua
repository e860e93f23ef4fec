-- Puts jobs back into the source that they were taken from, before newer ones. Jobs come newest first, as `tenant, text, …`.
--
-- What it says of a source: {`queue`, prefix of the Sidekiq's keys, queue}, where a text is a payload and the tenant is '', or
-- {`fairplay`, prefix of the class's keys in the gem sidekiq-fairplay, owner of its locks, their life in s}, where it is arguments.

-- Lua's stack holds 8,000 values.
local PORTION = 4000

local function push(call, command, key, texts)
  for first = 1, #texts, PORTION do call(command, key, unpack(texts, first, math.min(first + PORTION - 1, #texts))) end
end

-- Workers take from the tail.
local function restore_queue(call, source, jobs)
  local texts = {}
  for place = 2, #jobs, 2 do texts[place / 2] = jobs[place] end
  push(call, 'RPUSH', source[2] .. 'queue:' .. source[3], texts)
  call('SADD', source[2] .. 'queues', source[3])
  return true
end

-- The gem takes from the head: it looks at the first job and removes it later, which its lock keeps it from doing now.
local function restore_fairplay(call, source, jobs)
  local class, owner, life = source[2], source[3], source[4]
  if call('GET', class .. 'execute_lock') ~= owner then return false end
  call('EXPIRE', class .. 'execute_lock', life)
  call('SET', class .. 'enqueue_lock', owner, 'EX', life)
  local names, lists = {}, {}
  for place = 1, #jobs, 2 do
    local name = jobs[place]
    if not lists[name] then
      lists[name], names[#names + 1] = {}, name
    end
    lists[name][#lists[name] + 1] = jobs[place + 1]
  end
  for _, name in ipairs(names) do
    local queue = class .. 'tenant_queue:' .. name
    push(call, 'LPUSH', queue, lists[name])
    call('PERSIST', queue) -- the end of the jobs that are there may be near
    call('HINCRBY', class .. 'tenant_counts', name, #lists[name])
  end
  call('PERSIST', class .. 'tenant_counts')
  return true
end

-- Whether they are there: not if the gem's locks are not the owner's, and then nothing has changed.
local function restore(call, source, jobs)
  return (source[1] == 'queue' and restore_queue or restore_fairplay)(call, source, jobs)
end

return {restore = restore}
