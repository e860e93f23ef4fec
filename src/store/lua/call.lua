-- Part of every script: its settings, the clock, and what is written once per call however many jobs it holds.
--
-- KEYS[1]  the namespace's prefix `fg:{ns}:`. Every key of a script starts with it, so that all lie in one cluster slot.
-- ARGV[1]  now in ms for tests, or '' to read the server's clock, on which processes with skewed clocks agree
-- ARGV[2…8] settings: visibility, timeout, retention of completed, cancelled, discarded and dead letters, dead_after (ms)
-- ARGV[9…] the verb's own arguments
--
-- A script is set up once and called many times: Redis keeps its functions as a library, because making them takes longer than
-- most calls. So what lasts for one call is made in `at_begin`, never where it is declared, and what a verb does is its `run`.
local P, ARGV, call, run
local concat, match, format = table.concat, string.match, string.format
local begins = {}

local function at_begin(set_up)
  begins[#begins + 1] = set_up
end

-- Remembers between calls what is worked out of a key, and of nothing else; of no more than so many keys at a time. What is
-- remembered is everybody's: nobody changes it.
local function remembering(most, work_out)
  local known, size = {}, 0
  return function(key, first, second)
    local value = known[key]
    if value == nil then
      value = work_out(key, first, second)
      if size == most then known, size = {}, 0 end
      known[key], size = value, size + 1
    end
    return value
  end
end

-- One call.
local function handle(keys, arguments)
  P, ARGV, call = keys[1], arguments, redis.call
  for position = 1, #begins do begins[position]() end
  return run()
end

-- Numbers are passed on as text made with `%d`: Redis and Lua would each print them as floating point, at several times
-- the cost, and most commands carry a time, a score or a sequence. Small ones, most of which count something, are at hand.
local int

do
  local SMALL = {}
  for number = -16, 128 do SMALL[number] = format('%d', number) end

  int = function(number)
    return SMALL[number] or format('%d', number)
  end
end

local state, seq, events, now, now_text
-- Now, on a clock that is never set back: what has to be measured over a step of the real one is kept in this time.
local steady
-- Events are records of fields, kept as text that only Rust turns into JSON; one stream entry per call. A job's tenant stands
-- behind its trace, where entries from before have none.
local log
local counts -- of jobs by queue and state
local allowed -- what tenants are: see `tenant.lua`

local emit

-- What an event without a job is about: a worker by its id, or nothing.
local function subject(id)
  return {id = id, type = '', queue = ''}
end

-- How a clock that is set back is accepted. `sets` are those whose scores are times that were computed from the clock: they are put
-- aside under another name, and the tick shifts them in portions (`clock_step.lua`).
local clock_step = {sets = {'leases', 'due', 'wakes', 'deliveries'}, aside = ':before_step'}

do -- a script has room for 200 locals

local function event_text(kind, job, data)
  return kind .. '\31' .. job.id .. '\31' .. job.type .. '\31' .. job.queue .. '\31'
    .. (job.trace or '') .. (job.tenant and '\28' .. job.tenant or '') .. '\31' .. (data or '')
end

emit = function(kind, job, data)
  log[#log + 1] = event_text(kind, job, data)
end

-- Accepts a clock that was set back by `step` ms. False while the tick still works on an earlier step.
clock_step.accept = function(step)
  for _, set in ipairs(clock_step.sets) do
    if call('EXISTS', P .. set .. clock_step.aside) == 1 then return false end
  end
  events, state.shift = events + 1, int((tonumber(state.shift) or 0) + step)
  -- Written first: a full Redis refuses the first write of a script, and none after it.
  call('HSET', P .. 'state', 'clock', int(now), 'shift', state.shift, 'step', int(step), 'events', int(events))
  for _, set in ipairs(clock_step.sets) do
    if call('EXISTS', P .. set) == 1 then call('RENAME', P .. set, P .. set .. clock_step.aside) end
  end
  local event = event_text('clock.stepped_back', subject(''), '"step_ms":' .. int(step))
  call('XADD', P .. 'events', '*', 'n', int(events), 't', int(now), 'e', event)
  return true
end

end

-- A clock that steps back a little (a failover, a slewing clock) stands still instead, so that ages never turn
-- negative; a step of more than 5 s is somebody setting the clock, and is accepted.
at_begin(function()
  -- Room for all that there may be. Asked for by name, each would be looked for from the first on.
  state = {clock = nil, seq = nil, events = nil, halted = nil, staged = nil, rules = '', policy = '', parked = nil, limits = nil,
    gated = nil, paused = nil, bounded = nil, tenants = nil, throttled = nil, levels = nil, stale = nil, recalled = nil,
    shift = nil, step = nil, cron_shift = nil}
  local words = call('HGETALL', P .. 'state')
  for place = 1, #words, 2 do state[words[place]] = words[place + 1] end
  seq, events = tonumber(state.seq) or 0, tonumber(state.events) or 0
  now = tonumber(ARGV[1])
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local last = tonumber(state.clock) or 0
  if now < last and (last - now <= 5000 or not clock_step.accept(last - now)) then now = last end
  steady = now + (tonumber(state.shift) or 0)
  now_text, log, counts, allowed = int(now), {}, {}, state.tenants or ''
end)

-- A point in time inside an event's data; Rust writes it as a timestamp.
local function stamp(ms)
  return '\29' .. ms .. '\29'
end

local count, send, gather, settle, flush, at_commit, signal, commit, guarded

do -- a script has room for 200 locals

-- What an item counts is staged until the item has succeeded: see `guarded`. Who takes it over then, by kind.
local staged, staged_size
local take = {}

local function stage(kind, key, first, second, third)
  local size = staged_size
  staged[size + 1], staged[size + 2], staged[size + 3], staged[size + 4], staged[size + 5] = kind, key, first, second, third
  staged_size = size + 5
end

-- Counts are changed only here, in the script that changes the job's state.
count = function(queue, state, by)
  stage('count', queue, state, by)
end

-- Writes to one key are gathered and sent as one command: a call costs Redis commands by the key, not by the job. What an item
-- gathered is cut off again if it fails, so each list knows how long it was when the item that last added to it began to.
local gathered, gathered_order, item
-- Places in a list: what is said of it, and then the command's arguments. Many lists are of one job: by place they are cheapest to make.
local COMMAND, LAST, ITEM, KEPT, KEY = 1, 2, 3, 4, 5

gather = function(command, key, first, second)
  local list = gathered[key]
  if type(first) == 'number' then first = int(first) end
  -- The order of writes to one key is kept: another command gets a list of its own, behind those that are there.
  if not list or list[COMMAND] ~= command then
    list = {command, second and KEY + 2 or KEY + 1, item, KEY, key, first, second}
    gathered[key] = list
    gathered_order[#gathered_order + 1] = list
    return
  end
  local last = list[LAST]
  if list[ITEM] ~= item then list[ITEM], list[KEPT] = item, last end
  list[last + 1] = first
  if second then list[last + 2] = second end
  list[LAST] = last + (second and 2 or 1)
end

-- A command about one key with all of a list, or with its places from one to another. In portions: Lua's stack holds 8,000 values.
send = function(command, key, list, first, last)
  last = last or #list
  for from = first or 1, last, 4000 do call(command, key, unpack(list, from, math.min(from + 3999, last))) end
end

local function send_gathered()
  for position = 1, #gathered_order do
    local list = gathered_order[position]
    send(list[COMMAND], list[KEY], list, KEY + 1, list[LAST])
  end
  gathered, gathered_order = {}, {}
end

-- Takes over what was staged and gathered: an item that fails later does not take it back.
settle = function()
  item = item + 1
  for at = 1, staged_size, 5 do
    take[staged[at]](staged[at + 1], staged[at + 2], staged[at + 3], staged[at + 4])
  end
  staged_size = 0
end

local function unsettle()
  staged_size = 0
  for _, list in ipairs(gathered_order) do
    if list[ITEM] == item then list[LAST] = list[KEPT] end
  end
end

flush = function()
  settle()
  send_gathered()
end

-- What is to be done at the end, in this order: parts add their own. And what they need for that.
at_commit = {flush, stage = stage, take = take}

take.count = function(queue, state, by)
  local of_queue = counts[queue]
  if not of_queue then
    of_queue = {}
    counts[queue] = of_queue
  end
  of_queue[state] = (of_queue[state] or 0) + by
end

-- Tells every process, at the end of the script; a signal may be lost, so nothing may depend on it but speed.
local signals

signal = function(text)
  signals[text] = true
end

-- Writes what was gathered. Called once, at the end of a script; a call that changed nothing writes nothing.
commit = function()
  for _, write in ipairs(at_commit) do write() end
  flush() -- what those counted and gathered themselves
  -- A user without rights on the channel gets on without: its processes ask from time to time.
  for text in pairs(signals) do redis.pcall('PUBLISH', P .. 'signals', text) end
  if at_commit.tallies then at_commit.tallies() end
  local activity = at_commit.activity and at_commit.activity() -- of tenants: see `did.lua`
  if not next(counts) and #log == 0 and not activity then return end
  for queue, states in pairs(counts) do
    local key = P .. 'counts:' .. queue
    for name, by in pairs(states) do
      if by ~= 0 then call('HINCRBY', key, name, int(by)) end
    end
  end
  if #log > 0 or activity then
    events = events + #log
    log[#log + 1] = activity
    call('XADD', P .. 'events', '*', 'n', int(events), 't', now_text, 'e', concat(log, '\30'))
  end
  call('HSET', P .. 'state', 'clock', now_text, 'seq', int(seq), 'events', int(events))
end

-- One bad item harms only itself: an error while it is handled becomes its own result, and what it staged is dropped.
guarded = function(handle, ...)
  settle()
  local logged = #log
  local ok, result = pcall(handle, ...)
  if ok then return result end
  unsettle()
  for position = #log, logged + 1, -1 do log[position] = nil end
  local text = type(result) == 'table' and result.err or tostring(result)
  for _, code in ipairs({'OOM', 'MISCONF', 'READONLY', 'NOREPLICAS'}) do
    -- Redis itself refuses, and will refuse the rest: the same refusal, unguarded, ends the script with Redis' own code.
    if string.find(text, code, 1, true) then call('HSET', P .. 'state', 'clock', now_text) end
  end
  return {'error', text}
end

at_begin(function()
  staged, staged_size, gathered, gathered_order, item, signals = {}, 0, {}, {}, 0, {}
end)

end
