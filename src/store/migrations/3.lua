-- Migrates stored data from schema 3 to 4, which renamed keys and the fields of `low_water`. Runs
-- once for a namespace, in one step, so no process sees half of it.
--
-- KEYS[1]  `fg:{ns}:schema`
-- ARGV[1]  the namespace's prefix `fg:{ns}:`
--
-- Returns the schema of the data afterwards.

local schema, prefix = KEYS[1], ARGV[1]

-- Another process may have been faster.
local found = redis.call('GET', schema)
if found ~= '3' then return found end

local RENAMED = {['did:at'] = 'activity:at', ['books:at'] = 'enqueues:at', pressed = 'bounds:reported', caps = 'limits:stopped',
  rouse = 'limits:stopped:at', held = 'worker_jobs'}
-- Keys for single minutes, hours and intervals. They expire within hours, so there are few.
local NUMBERED = {did = 'activity', books = 'enqueues'}
local LOW_WATER = {m = 'mark', d = 'dry', n = 'fair_queues'}

local function rename(old, new)
  if redis.call('EXISTS', prefix .. old) == 1 then redis.call('RENAME', prefix .. old, prefix .. new) end
end

for old, new in pairs(RENAMED) do rename(old, new) end
for old, new in pairs(NUMBERED) do
  -- Characters of the prefix may be special in a pattern, so each key is compared as well.
  for _, key in ipairs(redis.call('KEYS', '*:' .. old .. ':*')) do
    local first = prefix .. old .. ':'
    if string.sub(key, 1, #first) == first then redis.call('RENAME', key, prefix .. new .. ':' .. string.sub(key, #first + 1)) end
  end
end
local low = redis.call('HGETALL', prefix .. 'low')
for place = 1, #low, 2 do
  local name, queue = string.match(low[place], '^(%a) (.*)$')
  if LOW_WATER[name] then redis.call('HSET', prefix .. 'low_water', LOW_WATER[name] .. ' ' .. queue, low[place + 1]) end
end
redis.call('DEL', prefix .. 'low')
redis.call('SET', schema, '4')
return '4'
