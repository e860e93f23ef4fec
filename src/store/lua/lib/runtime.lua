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

local function begin(keys, args)
  ctx.prefix, ctx.args, ctx.call = keys[1], args, ctx.call + 1
  -- One constructor with all fields, because Lua resizes a table that grows field by field.
  local state = {clock = nil, seq = nil, events = nil, halted = nil, staged = nil, rules = '', policy = '', parked = nil,
    limits = nil, gated = nil, paused = nil, bounded = nil, tenants = nil, throttled = nil, levels = nil, stale = nil,
    recalled = nil, shift = nil, step = nil, cron_shift = nil}
  local words = call('HGETALL', ctx.prefix .. 'state')
  for place = 1, #words, 2 do state[words[place]] = words[place + 1] end
  ctx.state, ctx.seq, ctx.events = state, tonumber(state.seq) or 0, tonumber(state.events) or 0
  begin_clock()
  ctx.log, ctx.counts, ctx.allowed = {}, {}, state.tenants or ''
end

-- Runs one call of a command.
local function run(command, keys, args)
  current = command
  begin(keys, args)
  local begins = command.begins
  for place = 1, #begins do begins[place]() end
  return command.handle()
end

-- Changes to counts are deferred until the item that makes them has succeeded (`guarded`). Then the
-- applier of their kind applies them. An entry takes five places: kind, key and up to three values.
local deferred, deferred_size
local appliers = {}

local function defer(kind, key, first, second, third)
  local size = deferred_size
  deferred[size + 1], deferred[size + 2], deferred[size + 3], deferred[size + 4], deferred[size + 5] = kind, key, first, second, third
  deferred_size = size + 5
end

-- Counts jobs of a queue by state. Counts change only through this function, in the script that
-- changes the state of the job.
local function count(queue, state, by)
  defer('count', queue, state, by)
end

appliers.count = function(queue, state, by)
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
local gathered, gathered_order, item
-- Positions in a list: its description, followed by the arguments of the command. Most lists hold
-- one job, and a list constructor is the cheapest way to create them.
local COMMAND_AT, LAST_AT, ITEM_AT, KEPT_AT, KEY_AT = 1, 2, 3, 4, 5

local function gather(command, key, first, second)
  local list = gathered[key]
  if type(first) == 'number' then first = int(first) end
  -- Writes to one key keep their order: a different command starts a new list, which is sent later.
  if not list or list[COMMAND_AT] ~= command then
    list = {command, second and KEY_AT + 2 or KEY_AT + 1, item, KEY_AT, key, first, second}
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
    send(list[COMMAND_AT], list[KEY_AT], list, KEY_AT + 1, list[LAST_AT])
  end
  gathered, gathered_order = {}, {}
end

-- Applies deferred changes and keeps gathered writes. An item that fails later does not revert
-- them.
local function apply_deferred()
  item = item + 1
  for at = 1, deferred_size, 5 do
    appliers[deferred[at]](deferred[at + 1], deferred[at + 2], deferred[at + 3], deferred[at + 4])
  end
  deferred_size = 0
end

local function revert()
  deferred_size = 0
  for _, list in ipairs(gathered_order) do
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

local function run_phase(name)
  local writes, result = current.commits[name], nil
  if not writes or touched[name] and touched[name] ~= ctx.call then return nil end
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
  for place = 1, #PHASES do run_phase(PHASES[place]) end
  flush() -- what the phases themselves counted and gathered
  publish_signals()
  run_phase('tallies')
  local activity = run_phase('activity')
  if not next(ctx.counts) and #ctx.log == 0 and not activity then return end
  write_counts()
  write_events(activity)
  call('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text, 'seq', int(ctx.seq), 'events', int(ctx.events))
end

-- Handles one item so that its failure affects no other item. Returns the result of `handle`, or
-- `{'error', text}` after reverting what the item deferred, gathered and emitted.
local function guarded(handle, ...)
  apply_deferred()
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
  deferred, deferred_size, gathered, gathered_order, item, signals = {}, 0, {}, {}, 0, {}
end)

return {
  on_begin = on_begin, on_commit = loader.on_commit, run = run, memoize = memoize, per_call = per_call, int = int,
  emit = event.emit, subject = event.subject, stamp = event.stamp,
  defer = defer, appliers = appliers, count = count, gather = gather, send = send, apply_deferred = apply_deferred, flush = flush,
  signal = signal, commit = commit, guarded = guarded,
}
