-- Runs a call: reads settings and clock, and writes once per call, however many jobs the call
-- handles.
--
-- KEYS[1]   the namespace's prefix `fg:{ns}:`
-- ARGV[1]   now in ms for tests, or '' to read the clock of the Redis server, so that processes
--           with skewed clocks agree
-- ARGV[2…8] settings in ms: visibility, timeout, retention of completed, cancelled, discarded and
--           dead-letter jobs, dead_after
-- ARGV[9…]  the command's own arguments

local loader = require('loader')
local ctx = require('lib/context')
local clock_step = require('lib/clock_step')
local event = require('lib/event')
local int = require('lib/number').int
local memoize = require('lib/memo').memoize
local on_begin = loader.on_begin
local call = redis.call
local concat = table.concat

-- The order in which modules write at the end of a call. Tallies, activity, counts and events
-- follow.
local PHASES = {'workflows', 'writes', 'lanes', 'fairness', 'limit_counts', 'limits', 'plans', 'enqueue_rates'}
local current -- the command of the current call

-- By phase: the last call in which a `per_call` table of that phase was made. A phase that is not a
-- key of this table always runs.
local touched = {}

-- Returns a function that returns a table of the current call and creates it on first use, because
-- most calls need few of the tables that modules keep. If a phase is given, everything that is
-- written in that phase comes from this table, and the phase is skipped in calls that did not
-- create it.
local function per_call(phase)
  local of_call, made
  if phase then touched[phase] = 0 end
  return function()
    if of_call ~= ctx.call then
      of_call, made = ctx.call, {}
      if phase then touched[phase] = of_call end
    end
    return made
  end
end

-- Reads the clock. If it is behind the last call by up to 5 s (a failover, a slewing clock), the
-- time of the last call is used instead, so that ages never become negative. A larger step means
-- that someone set the clock; it is accepted.
local function begin_clock()
  local state, now = ctx.state, tonumber(ctx.args[1])
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local last = tonumber(state.clock) or 0
  if now < last and (last - now <= 5000 or not clock_step.accept(now, last - now)) then now = last end
  ctx.now, ctx.now_text, ctx.steady = now, int(now), now + (tonumber(state.shift) or 0)
end

-- Parses the settings if they are not those of the last call.
local SETTINGS = {'visibility', 'timeout', 'completed', 'cancelled', 'discarded', 'dead_letter', 'dead_after'}
local settings_text

local function begin_settings(args)
  local text = concat(args, ' ', 2, 8)
  if text == settings_text then return end
  settings_text, ctx.settings = text, {}
  for place, name in ipairs(SETTINGS) do ctx.settings[name] = tonumber(args[place + 1]) end
end

local function begin(keys, args)
  begin_settings(args)
  ctx.prefix, ctx.args, ctx.call = keys[1], args, ctx.call + 1
  -- One constructor with all fields, because Lua resizes a table that grows field by field.
  local state = {clock = nil, seq = nil, events = nil, halted = nil, staged = nil, rules = '', policy = '', parked = nil,
    limits = nil, gated = nil, paused = nil, bounded = nil, tenants = nil, throttled = nil, levels = nil, stale = nil,
    recalled = nil, shift = nil, step = nil, cron_shift = nil}
  local words = call('HGETALL', ctx.prefix .. 'state')
  for place = 1, #words, 2 do state[words[place]] = words[place + 1] end
  ctx.state, ctx.seq, ctx.events = state, tonumber(state.seq) or 0, tonumber(state.events) or 0
  begin_clock()
  ctx.log, ctx.counts, ctx.tenant_limits = {}, {}, state.tenants or ''
end

-- Returns the phases in which a command writes, in their order.
local function phases_of(command)
  local phases = {}
  for _, name in ipairs(PHASES) do
    local writes = command.commits[name]
    if writes then phases[#phases + 1] = {name = name, writes = writes} end
  end
  return phases
end

-- Runs one call of a command.
local function run(command, keys, args)
  current = command
  command.phases = command.phases or phases_of(command)
  begin(keys, args)
  local begins = command.begins
  for place = 1, #begins do begins[place]() end
  return command.handle()
end

-- A call handles items, such as the requests of a group; `item` is the number of the current one.
-- If an item fails (`guarded`), what it counted and gathered is reverted.
local item

-- Changes to counts are deferred, and those of a kind with the same key in a row are summed, because
-- most jobs of a call change the same counts. Later the applier of their kind applies them:
-- `applier(key, first, second, third, by, more)`. A key has up to four parts, a change two numbers.
local deferred -- all entries
local latest -- by kind: its last entry
local applied_in -- the item in which earlier ones were applied last
local appliers = {}
-- Positions in an entry. The KEPT ones are the sums before the item that changed the entry last.
local KIND_AT, KEY_AT, FIRST_AT, SECOND_AT, THIRD_AT, BY_AT, MORE_AT, CHANGED_AT, KEPT_BY_AT, KEPT_MORE_AT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local function defer(kind, key, first, second, third, by, more)
  local entry = latest[kind]
  if entry and entry[KEY_AT] == key and entry[FIRST_AT] == first and entry[SECOND_AT] == second and entry[THIRD_AT] == third then
    if entry[CHANGED_AT] ~= item then
      entry[CHANGED_AT], entry[KEPT_BY_AT], entry[KEPT_MORE_AT] = item, entry[BY_AT], entry[MORE_AT]
    end
    entry[BY_AT], entry[MORE_AT] = entry[BY_AT] + by, entry[MORE_AT] + more
    return
  end
  entry = {kind, key, first, second, third, by, more, item, 0, 0}
  latest[kind] = entry
  deferred[#deferred + 1] = entry
end

local function apply(entry, by, more)
  if by ~= 0 or more ~= 0 then
    appliers[entry[KIND_AT]](entry[KEY_AT], entry[FIRST_AT], entry[SECOND_AT], entry[THIRD_AT], by, more)
  end
end

-- Applies what earlier items deferred. Functions that read counts call it first.
local function apply_earlier()
  if applied_in == item then return end
  local entries = deferred
  applied_in, deferred, latest = item, {}, {}
  for position = 1, #entries do
    local entry = entries[position]
    if entry[CHANGED_AT] ~= item then
      apply(entry, entry[BY_AT], entry[MORE_AT])
    else
      apply(entry, entry[KEPT_BY_AT], entry[KEPT_MORE_AT])
      entry[BY_AT], entry[MORE_AT] = entry[BY_AT] - entry[KEPT_BY_AT], entry[MORE_AT] - entry[KEPT_MORE_AT]
      entry[KEPT_BY_AT], entry[KEPT_MORE_AT] = 0, 0
      deferred[#deferred + 1] = entry
    end
  end
end

-- Ends the current item and applies all that is deferred. A later failure does not revert it.
local function apply_deferred()
  item = item + 1
  apply_earlier()
end

-- Counts jobs of a queue by state. Counts change only through this function, in the script that
-- changes the state of the job.
local function count(queue, state, by)
  defer('count', queue, state, nil, nil, by, 0)
end

appliers.count = function(queue, state, _, _, by)
  local counts = ctx.counts
  local of_queue = counts[queue]
  if not of_queue then
    of_queue = {}
    counts[queue] = of_queue
  end
  of_queue[state] = (of_queue[state] or 0) + by
end

-- Writes to one key are gathered and sent as one command, so the number of Redis commands depends
-- on the number of keys, not of jobs. If an item fails, what it gathered is cut off again.
-- Therefore each list stores its length at the time when the last item began to add to it.
local gathered, gathered_order
-- Positions in a list: its description, followed by the arguments of the command. Most lists hold
-- one job, and a list constructor is the cheapest way to create them.
local COMMAND_AT, LAST_AT, ITEM_AT, KEPT_AT, TARGET_AT = 1, 2, 3, 4, 5

-- The values are texts: Redis would format numbers as floating point.
local function gather(command, key, first, second)
  local list = gathered[key]
  -- Writes to one key keep their order: a different command starts a new list, which is sent later.
  if not list or list[COMMAND_AT] ~= command then
    list = {command, second and TARGET_AT + 2 or TARGET_AT + 1, item, TARGET_AT, key, first, second}
    gathered[key] = list
    gathered_order[#gathered_order + 1] = list
    return
  end
  local last = list[LAST_AT]
  if list[ITEM_AT] ~= item then list[ITEM_AT], list[KEPT_AT] = item, last end
  list[last + 1] = first
  if second then list[last + 2] = second end
  list[LAST_AT] = last + (second and 2 or 1)
end

-- Sends a command for one key with the elements of a list from `first` to `last`. Sends portions,
-- because Lua's stack holds 8,000 values.
local function send(command, key, list, first, last)
  last = last or #list
  for from = first or 1, last, 4000 do call(command, key, unpack(list, from, math.min(from + 3999, last))) end
end

local function send_gathered()
  for position = 1, #gathered_order do
    local list = gathered_order[position]
    send(list[COMMAND_AT], list[TARGET_AT], list, TARGET_AT + 1, list[LAST_AT])
  end
  gathered, gathered_order = {}, {}
end

local function revert()
  for position = 1, #deferred do
    local entry = deferred[position]
    if entry[CHANGED_AT] == item then entry[BY_AT], entry[MORE_AT] = entry[KEPT_BY_AT], entry[KEPT_MORE_AT] end
  end
  for position = 1, #gathered_order do
    local list = gathered_order[position]
    if list[ITEM_AT] == item then list[LAST_AT] = list[KEPT_AT] end
  end
end

local function flush()
  apply_deferred()
  send_gathered()
end

loader.on_commit('writes', flush)

-- Signals are published at the end of the call. One may be lost, so only latency may depend on it.
local signals

local function signal(text)
  signals[text] = true
end

local function publish_signals()
  -- A Redis user without rights on the channel gets no signals; its processes poll.
  for text in pairs(signals) do redis.pcall('PUBLISH', ctx.prefix .. 'signals', text) end
end

local function run_phase(writes)
  local result
  for place = 1, #writes do result = writes[place]() end
  return result
end

local function write_counts()
  for queue, states in pairs(ctx.counts) do
    local key = ctx.prefix .. 'counts:' .. queue
    for name, by in pairs(states) do
      if by ~= 0 then call('HINCRBY', key, name, int(by)) end
    end
  end
end

local function write_events(activity)
  local log = ctx.log
  if #log == 0 and not activity then return end
  ctx.events = ctx.events + #log
  log[#log + 1] = activity
  call('XADD', ctx.prefix .. 'events', '*', 'n', int(ctx.events), 't', ctx.now_text, 'e', concat(log, event.SEPARATOR))
end

-- Writes the changes of the call. Commands call it once, at the end. A call without changes writes
-- nothing.
local function commit()
  local phases, commits = current.phases, current.commits
  for place = 1, #phases do
    local phase = phases[place]
    local last = touched[phase.name]
    if not last or last == ctx.call then run_phase(phase.writes) end
  end
  flush() -- what the phases themselves counted and gathered
  publish_signals()
  if commits.tallies then run_phase(commits.tallies) end
  local activity = commits.activity and run_phase(commits.activity)
  if not next(ctx.counts) and #ctx.log == 0 and not activity then return end
  write_counts()
  write_events(activity)
  call('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text, 'seq', int(ctx.seq), 'events', int(ctx.events))
end

-- Handles one item so that its failure affects no other item. Returns the result of `handle`, or
-- `{'error', text}` after reverting what the item deferred, gathered and emitted.
local function guarded(handle, ...)
  item = item + 1
  local log = ctx.log
  local logged = #log
  local ok, result = pcall(handle, ...)
  if ok then return result end
  revert()
  for position = #log, logged + 1, -1 do log[position] = nil end
  local text = type(result) == 'table' and result.err or tostring(result)
  for _, code in ipairs({'OOM', 'MISCONF', 'READONLY', 'NOREPLICAS'}) do
    -- Redis itself refuses writes, and will refuse those of all other items as well. The same write
    -- without `pcall` ends the script with Redis' own error code.
    if string.find(text, code, 1, true) then call('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text) end
  end
  return {'error', text}
end

on_begin(function()
  deferred, latest, gathered, gathered_order, item, applied_in, signals = {}, {}, {}, {}, 0, 0, {}
end)

return {
  on_begin = on_begin, on_commit = loader.on_commit, run = run, memoize = memoize, per_call = per_call, int = int,
  emit = event.emit, subject = event.subject, stamp = event.stamp,
  defer = defer, appliers = appliers, count = count, gather = gather, send = send, apply_deferred = apply_deferred, apply_earlier = apply_earlier, flush = flush,
  signal = signal, commit = commit, guarded = guarded,
}
