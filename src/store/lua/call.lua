-- Part of every writing script: arguments, the clock, and what is written once per call however many jobs it holds.
--
-- KEYS[1]  the namespace's prefix `fg:{ns}:`. Every key of a script starts with it, so that all lie in one cluster slot.
-- ARGV[1]  now in ms for tests, or '' to read the server's clock, on which processes with skewed clocks agree
-- ARGV[2]  settings, in the order of `settings` below
-- ARGV[3…] the verb's own arguments, taken one by one with `arg`
local P = KEYS[1]
local call = redis.call
local cursor = 2

local function arg()
  cursor = cursor + 1
  return ARGV[cursor]
end

local function optional()
  local value = arg()
  if value ~= '' then return value end
end

local function number()
  return tonumber(arg())
end

local settings = {}
do
  local names = {'visibility', 'timeout', 'completed', 'cancelled', 'discarded', 'dead_letter', 'dead_after'}
  local position = 0
  for value in string.gmatch(ARGV[2], '%S+') do
    position = position + 1
    settings[names[position]] = tonumber(value)
  end
end

-- A clock that steps back a little (a failover, a slewing clock) stands still instead, so that ages never turn
-- negative; a step of more than 5 s is somebody setting the clock, and is accepted.
local now, stepped_back
local seq, events
do
  local state = call('HMGET', P .. 'state', 'clock', 'seq', 'events')
  local last = tonumber(state[1]) or 0
  seq, events = tonumber(state[2]) or 0, tonumber(state[3]) or 0
  if ARGV[1] ~= '' then
    now = tonumber(ARGV[1])
  else
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
    math.randomseed(time[1] % 1000000 * 1000 + time[2])
  end
  if now < last then
    if last - now <= 5000 then now = last else stepped_back = last - now end
  end
end

local function next_seq()
  seq = seq + 1
  return seq
end

-- Counts of jobs by queue and state. Changed only here, in the script that changes the job's state.
local counts = {}

local function count(queue, state, by)
  local of_queue = counts[queue]
  if not of_queue then
    of_queue = {}
    counts[queue] = of_queue
  end
  of_queue[state] = (of_queue[state] or 0) + by
end

-- Events are records of fields, kept as text that only Rust turns into JSON; one stream entry per call.
local log = {}

local function emit(kind, job, data)
  log[#log + 1] = table.concat({kind, job.id, job.type, job.queue, job.trace or '', data or ''}, '\31')
end

-- A point in time inside an event's data; Rust writes it as a timestamp.
local function stamp(ms)
  return '\29' .. ms .. '\29'
end

local at_commit = {}

-- Writes what was gathered. Called once, at the end of a script; a call that changed nothing writes nothing.
local function commit()
  for _, write in ipairs(at_commit) do write() end
  if not next(counts) and #log == 0 then return end
  for queue, states in pairs(counts) do
    for state, by in pairs(states) do
      if by ~= 0 then call('HINCRBY', P .. 'counts:' .. queue, state, by) end
    end
  end
  if stepped_back then emit('clock.stepped_back', {id = '', type = '', queue = ''}, '"step_ms":' .. stepped_back) end
  if #log > 0 then
    events = events + #log
    call('XADD', P .. 'events', '*', 'n', events, 't', now, 'e', table.concat(log, '\30'))
  end
  call('HSET', P .. 'state', 'clock', now, 'seq', seq, 'events', events)
end

-- One bad item harms only itself: an error while it is handled becomes its own result.
local function guarded(handle, ...)
  local ok, result = pcall(handle, ...)
  if ok then return result end
  if type(result) == 'table' then result = result.err end
  return {'error', tostring(result)}
end
