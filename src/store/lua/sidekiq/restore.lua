-- Puts jobs back into the source in a Sidekiq from which they were imported, before newer ones.
-- Jobs come newest first, as `tenant, text, …`.
--
-- A source is described by words:
--   `queue`, prefix, queue           a queue of the Sidekiq with this key prefix; a text is a
--                                    payload, the tenant is ''
--   `fairplay`, prefix, owner, life  a class of the gem sidekiq-fairplay: prefix of its keys, owner
--                                    and TTL in s of its locks; a text is arguments

-- Values per command: Lua's stack holds 8,000.
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

-- The gem takes from the head. It reads the first job and removes it later, but not while this
-- process holds its lock.
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
    call('PERSIST', queue) -- the list may have a TTL
    call('HINCRBY', class .. 'tenant_counts', name, #lists[name])
  end
  call('PERSIST', class .. 'tenant_counts')
  return true
end

-- Returns true if the jobs were put back; false, with nothing changed, if another process holds the
-- gem's lock.
local function restore(call, source, jobs)
  return (source[1] == 'queue' and restore_queue or restore_fairplay)(call, source, jobs)
end

return {restore = restore}
