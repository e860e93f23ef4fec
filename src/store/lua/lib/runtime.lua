-- Runs a call: its settings, the clock, and what is written once per call, however many jobs it holds.
--
-- KEYS[1]  the namespace's prefix `fg:{ns}:`
-- ARGV[1]  now in ms for tests, or '' to read the server's clock, on which processes with skewed clocks agree
-- ARGV[2…8] settings: visibility, timeout, retention of completed, cancelled, discarded and dead letters, dead_after (ms)
-- ARGV[9…] the command's own arguments

local loader = require('loader')
local ctx = require('lib/context')
local clock_step = require('lib/clock_step')
local event = require('lib/event')
local int = require('lib/number').int
local remembering = require('lib/memo').remembering
local on_begin = loader.on_begin
local call = redis.call
local concat = table.concat

-- The order in which modules write at the end of a call. Counts and events follow.
local PHASES = {'workflows', 'writes', 'lanes', 'fairness', 'limit_counts', 'limits', 'plans', 'enqueue_rates'}
local current -- the command under way

local touched = {} -- by phase: the last call that had something for it; phases that are not in it always run

-- Returns a function that returns a table of the call under way, and makes it when it is first asked for: most calls need few of those
-- that modules keep. If a phase is named, what is to be written in that phase comes from this table, and it runs only if there is one.
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

-- A clock that steps back a little (a failover, a slewing clock) stands still instead, so that ages never turn
-- negative; a step of more than 5 s is somebody setting the clock, and is accepted.
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
  -- All fields that there may be: a table that grows field by field is laid out anew several times.
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

-- Changes that an item makes to counts are deferred until the item has succeeded: see `guarded`. Then the applier of their kind
-- takes them over.
local deferred, deferred_size
local appliers = {}

local function defer(kind, key, first, second, third)
  local size = deferred_size
  deferred[size + 1], deferred[size + 2], deferred[size + 3], deferred[size + 4], deferred[size + 5] = kind, key, first, second, third
  deferred_size = size + 5
end

-- Counts jobs of a queue by state. Counts change only here, in the script that changes the job's state.
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

-- Writes to one key are gathered and sent as one command: a call costs Redis commands by the key, not by the job. What an item
-- gathered is cut off again if it fails, so each list knows how long it was when the item that last added to it began to.
local gathered, gathered_order, item
-- Places in a list: its description, and then the command's arguments. Most lists are of one job: by place they are cheapest to make.
local COMMAND, LAST, ITEM, KEPT, KEY = 1, 2, 3, 4, 5

local function gather(command, key, first, second)
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

-- Sends a command about one key with all of a list, or with its places from one to another. In portions: Lua's stack holds
-- 8,000 values.
local function send(command, key, list, first, last)
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

-- Takes over what was deferred and gathered: an item that fails later does not take it back.
local function settle()
  item = item + 1
  for at = 1, deferred_size, 5 do
    appliers[deferred[at]](deferred[at + 1], deferred[at + 2], deferred[at + 3], deferred[at + 4])
  end
  deferred_size = 0
end

local function unsettle()
  deferred_size = 0
  for _, list in ipairs(gathered_order) do
    if list[ITEM] == item then list[LAST] = list[KEPT] end
  end
end

local function flush()
  settle()
  send_gathered()
end

loader.on_commit('writes', flush)

-- Signals reach every process at the end of the call. One may be lost, so nothing but speed depends on it.
local signals

local function signal(text)
  signals[text] = true
end

local function publish_signals()
  -- A user without rights on the channel does without: its processes poll from time to time.
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

-- Writes what the call changed. Called once, at its end; a call that changed nothing writes nothing.
local function commit()
  for place = 1, #PHASES do run_phase(PHASES[place]) end
  flush() -- what those phases counted and gathered themselves
  publish_signals()
  run_phase('tallies')
  local activity = run_phase('activity')
  if not next(ctx.counts) and #ctx.log == 0 and not activity then return end
  write_counts()
  write_events(activity)
  call('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text, 'seq', int(ctx.seq), 'events', int(ctx.events))
end

-- Handles one item so that a bad one harms only itself: an error becomes its own result, and what it deferred is dropped.
local function guarded(handle, ...)
  settle()
  local log = ctx.log
  local logged = #log
  local ok, result = pcall(handle, ...)
  if ok then return result end
  unsettle()
  for position = #log, logged + 1, -1 do log[position] = nil end
  local text = type(result) == 'table' and result.err or tostring(result)
  for _, code in ipairs({'OOM', 'MISCONF', 'READONLY', 'NOREPLICAS'}) do
    -- Redis itself refuses, and will refuse the rest: the same refusal, unguarded, ends the script with Redis' own code.
    if string.find(text, code, 1, true) then call('HSET', ctx.prefix .. 'state', 'clock', ctx.now_text) end
  end
  return {'error', text}
end

on_begin(function()
  deferred, deferred_size, gathered, gathered_order, item, signals = {}, 0, {}, {}, 0, {}
end)

return {
  on_begin = on_begin, on_commit = loader.on_commit, run = run, remembering = remembering, per_call = per_call, int = int,
  emit = event.emit, subject = event.subject, stamp = event.stamp,
  defer = defer, appliers = appliers, count = count, gather = gather, send = send, settle = settle, flush = flush,
  signal = signal, commit = commit, guarded = guarded,
}
