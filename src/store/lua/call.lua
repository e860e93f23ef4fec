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
  return function(key, ...)
    local value = known[key]
    if value == nil then
      value = work_out(key, ...)
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

local state, seq, events, now, now_text, stepped_back
-- Events are records of fields, kept as text that only Rust turns into JSON; one stream entry per call. A job's tenant stands
-- behind its trace, where entries from before have none.
local log
local counts -- of jobs by queue and state

-- A clock that steps back a little (a failover, a slewing clock) stands still instead, so that ages never turn
-- negative; a step of more than 5 s is somebody setting the clock, and is accepted.
at_begin(function()
  -- Room for all that there may be. Asked for by name, each would be looked for from the first on.
  state = {clock = nil, seq = nil, events = nil, halted = nil, staged = nil, rules = '', policy = '', parked = nil, limits = nil,
    gated = nil, paused = nil, bounded = nil, tenants = nil, throttled = nil}
  local words = call('HGETALL', P .. 'state')
  for place = 1, #words, 2 do state[words[place]] = words[place + 1] end
  seq, events = tonumber(state.seq) or 0, tonumber(state.events) or 0
  now, stepped_back = tonumber(ARGV[1]), nil
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local last = tonumber(state.clock) or 0
  if now < last then
    if last - now <= 5000 then now = last else stepped_back = last - now end
  end
  now_text, log, counts = int(now), {}, {}
end)

local function emit(kind, job, data)
  log[#log + 1] = kind .. '\31' .. job.id .. '\31' .. job.type .. '\31' .. job.queue .. '\31'
    .. (job.trace or '') .. (job.tenant and '\28' .. job.tenant or '') .. '\31' .. (data or '')
end

-- What an event without a job is about: a worker by its id, or nothing.
local function subject(id)
  return {id = id, type = '', queue = ''}
end

-- A point in time inside an event's data; Rust writes it as a timestamp.
local function stamp(ms)
  return '\29' .. ms .. '\29'
end

local count, count_move, tally, tenants_load, tenant_waits, tenant_jobs, gather, settle, flush, at_commit, signal, commit, guarded
local allowed -- what tenants are: see `tenant.lua`

do -- a script has room for 200 locals

-- What an item counts is staged until the item has succeeded: see `guarded`.
local staged, staged_size

local function stage(kind, key, first, second, third)
  local size = staged_size
  staged[size + 1], staged[size + 2], staged[size + 3], staged[size + 4], staged[size + 5] = kind, key, first, second, third
  staged_size = size + 5
end

-- Counts are changed only here, in the script that changes the job's state.
count = function(queue, state, by)
  stage('count', queue, state, by)
end

-- Jobs of a tenant that have not ended, by state, in one hash for all: whoever has none is not in it. A job without a tenant is the
-- default tenant's, which is counted from when on somebody limits it. `*` are all others together. Staged jobs are counted with
-- the available ones, so that promoting them changes no count: how many they are, their lanes tell.
local LIVING = {pending = 1, available = 2, staged = 2, scheduled = 3, retryable = 4, active = 5}
local counts_default, has_tallies
local tallies -- by place in the text, and by tenant: what this call adds
local stored -- by tenant: its text

at_begin(function()
  allowed = state.tenants or ''
  counts_default, has_tallies, tallies, stored = string.find(allowed, 'd', 1, true), false, {{}, {}, {}, {}, {}}, {}
end)

-- The name under which a tenant's jobs are counted; nil if they are not.
local function tallied(tenant)
  if tenant and tenant ~= '_default' then return tenant end
  return counts_default and '_default' or nil
end

tally = function(tenant, state, by)
  local name = LIVING[state] and tallied(tenant)
  if name then stage('tally', name, LIVING[state], by) end
end

-- A job goes from one state to another, which counts for its queue and for its tenant.
count_move = function(queue, tenant, from, to)
  stage('move', queue, from, to, tallied(tenant))
end

-- Most tenants have few jobs, and so the same texts: what they say and what became of them is remembered between calls.
local NOBODY, SHORT, MOST_REMEMBERED = '0 0 0 0 0', 11, 4000
local PLACES = {'^()%d+()', '^%d+ ()%d+()', '^%d+ %d+ ()%d+()', '^%d+ %d+ %d+ ()%d+()', '^%d+ %d+ %d+ %d+ ()%d+()'}
local waiting, changed, remembered = {}, {}, 0

local function remember(known, text, value)
  if remembered == MOST_REMEMBERED then waiting, changed, remembered = {}, {}, 0 end
  known[text], remembered = value, remembered + 1
end

-- The text with one of its numbers changed; a count that was lost cannot make it negative.
local function text_changed(text, place, by)
  local change = by * 8 + place
  local known = changed[change]
  local result = known and known[text]
  if result then return result end
  local first, behind = match(text, PLACES[place])
  if not first then return text_changed(NOBODY, place, by) end
  local number = tonumber(string.sub(text, first, behind - 1)) + by
  result = string.sub(text, 1, first - 1) .. int(number > 0 and number or 0) .. string.sub(text, behind)
  if #text > SHORT then return result end
  if not known then
    known = {}
    changed[change] = known
  end
  remember(known, text, result)
  return result
end

-- In portions: Lua's stack holds 8,000 values, and a request may bring jobs of more tenants.
local PORTION = 4000

local function tenants_read(names)
  for first = 1, #names, PORTION do
    local texts = call('HMGET', P .. 'tenants', unpack(names, first, math.min(first + PORTION - 1, #names)))
    for position = 1, #texts do stored[names[first + position - 1]] = texts[position] or NOBODY end
  end
end

local function tenants_send(command, words)
  for first = 1, #words, PORTION do call(command, P .. 'tenants', unpack(words, first, math.min(first + PORTION - 1, #words))) end
end

-- Reads the jobs of tenants, all of them at once.
tenants_load = function(names)
  local unread = {}
  for position = 1, #names do
    local name = names[position]
    if not stored[name] then unread[#unread + 1] = name end
  end
  if #unread > 0 then tenants_read(unread) end
end

-- How many jobs of a tenant wait, and how many of those are scheduled, with what this call has settled.
tenant_waits = function(name)
  local text = stored[name]
  if not text then
    tenants_read({name})
    text = stored[name]
  end
  local jobs = waiting[text]
  if not jobs then
    local p, a, s = match(text, '^(%d+) (%d+) (%d+) ')
    jobs = {(p or 0) + (a or 0) + (s or 0), tonumber(s) or 0}
    if #text <= SHORT then remember(waiting, text, jobs) end
  end
  if not has_tallies then return jobs[1], jobs[2] end
  local later = tallies[3][name] or 0
  return jobs[1] + (tallies[1][name] or 0) + (tallies[2][name] or 0) + later, jobs[2] + later
end

-- Jobs of a tenant by state, with what this call has settled.
tenant_jobs = function(name)
  tenants_load({name})
  local jobs = {match(stored[name], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')}
  for place = 1, 5 do jobs[place] = (jobs[place] or 0) + (tallies[place][name] or 0) end
  return {pending = jobs[1], available = jobs[2], scheduled = jobs[3], retryable = jobs[4], active = jobs[5]}
end

local function tenants_write()
  local texts, unread, kept, gone = {}, {'*'}, {}, {}
  for place = 1, 5 do
    local all, of_place = 0, tallies[place]
    for name, by in pairs(of_place) do
      if by ~= 0 and texts[name] == nil then
        texts[name] = stored[name] or false
        if not texts[name] then unread[#unread + 1] = name end
      end
      if name ~= '_default' then all = all + by end
    end
    of_place['*'] = all
  end
  if not next(texts) then return end
  tenants_read(unread)
  for place = 1, 5 do
    for name, by in pairs(tallies[place]) do
      if by ~= 0 then texts[name] = text_changed(texts[name] or stored[name], place, by) end
    end
  end
  for name, text in pairs(texts) do
    if text == NOBODY then
      gone[#gone + 1] = name
    else
      kept[#kept + 1], kept[#kept + 2] = name, text
    end
  end
  tallies, has_tallies, stored = {{}, {}, {}, {}, {}}, false, {}
  tenants_send('HSET', kept)
  tenants_send('HDEL', gone)
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

local function send_gathered()
  for position = 1, #gathered_order do
    local list = gathered_order[position]
    local command, key, last = list[COMMAND], list[KEY], list[LAST]
    -- In portions, because Lua's stack holds 8,000 values.
    for first = KEY + 1, last, 4000 do
      call(command, key, unpack(list, first, math.min(first + 3999, last)))
    end
  end
  gathered, gathered_order = {}, {}
end

local function counts_of(queue)
  local of_queue = counts[queue]
  if not of_queue then
    of_queue = {}
    counts[queue] = of_queue
  end
  return of_queue
end

local function tally_add(tenant, place, by)
  local of_place = place and tallies[place]
  if of_place then of_place[tenant], has_tallies = (of_place[tenant] or 0) + by, true end
end

-- Takes over what was staged and gathered: an item that fails later does not take it back.
settle = function()
  item = item + 1
  for at = 1, staged_size, 5 do
    local kind, key, first, second = staged[at], staged[at + 1], staged[at + 2], staged[at + 3]
    if kind == 'move' then
      local of_queue = counts_of(key)
      of_queue[first], of_queue[second] = (of_queue[first] or 0) - 1, (of_queue[second] or 0) + 1
      local tenant = staged[at + 4]
      if tenant then
        tally_add(tenant, LIVING[first], -1)
        tally_add(tenant, LIVING[second], 1)
      end
    elseif kind == 'count' then
      local of_queue = counts_of(key)
      of_queue[first] = (of_queue[first] or 0) + second
    elseif kind == 'tally' then
      tally_add(key, first, second)
    else
      at_commit.did(key, first, second)
    end
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

at_commit = {flush, stage = stage} -- and `did`, which takes over what `did.lua` stages

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
  if has_tallies then tenants_write() end
  if not next(counts) and #log == 0 then return end
  for queue, states in pairs(counts) do
    local key = P .. 'counts:' .. queue
    for name, by in pairs(states) do
      if by ~= 0 then call('HINCRBY', key, name, int(by)) end
    end
  end
  if stepped_back then emit('clock.stepped_back', subject(''), '"step_ms":' .. stepped_back) end
  if #log > 0 then
    events = events + #log
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
