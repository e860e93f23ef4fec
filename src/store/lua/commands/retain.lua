-- Enforces retention: finished jobs, workflows and dead letters by age and count, events by count;
-- removes unused limits and queues.
--
-- idle     hash    queue without jobs → `since passed`: the time since when, and how many jobs had
--                  passed through it by then
-- idle:at  string  `cursor time`: position of the scan over `queues`, and time of its next portion
--
-- Takes
--   limit         number  most records of each kind to handle
--   max_finished  number  finished jobs to keep of each state; also workflows to keep
--   max_dead      number  dead letters to keep
--   max_events    number  events to keep
--   max_idle      number  ms after which a queue without jobs is forgotten
--
-- Returns  true if the caller should call again at once because more is left

local ctx = require('lib/context')
local packed = require('lib/packed')
local finish = require('queue/finish')
local runtime = require('lib/runtime')

local commit, emit, int, subject = runtime.commit, runtime.emit, runtime.int, runtime.subject
local job_erase = finish.job_erase
local call = redis.call
local match = string.match

local limit -- most records of each kind to handle

-- Records expire through their own TTL. Removes expired entries from an index; returns the amount
-- of work and the ids that exceed the count, oldest first.
local function trim_index(set, age, most)
  local trimmed = call('ZRANGEBYSCORE', ctx.prefix .. set, '-inf', ctx.now - age, 'LIMIT', 0, limit)
  if #trimmed > 0 then call('ZREM', ctx.prefix .. set, unpack(trimmed)) end
  local surplus = math.min(call('ZCARD', ctx.prefix .. set) - most, limit)
  if surplus <= 0 then return #trimmed, {} end
  return math.max(#trimmed, surplus), call('ZRANGE', ctx.prefix .. set, 0, surplus - 1)
end

local function retain_finished(max_finished)
  local handled = 0
  for _, state in ipairs({'completed', 'cancelled', 'discarded', 'forwarded'}) do
    local done, surplus = trim_index('finished:' .. state, finish.retention(state), max_finished)
    for _, id in ipairs(surplus) do
      -- Dead letters have a bound of their own; they only leave this index.
      if not call('ZSCORE', ctx.prefix .. 'dead', id) then job_erase(id) end
      call('ZREM', ctx.prefix .. 'finished:' .. state, id)
    end
    handled = math.max(handled, done)
  end
  return handled
end

local function retain_dead(max_dead)
  local done, surplus = trim_index('dead', finish.retention('dead_letter'), max_dead)
  for _, id in ipairs(surplus) do
    job_erase(id)
    call('ZREM', ctx.prefix .. 'dead', id)
    call('ZREM', ctx.prefix .. 'finished:discarded', id)
  end
  if #surplus > 0 then
    emit('dead_letter.pruned', subject(''), '"count":' .. #surplus)
  end
  return done
end

local function retain_workflows(max_finished)
  local longest = math.max(finish.retention('completed'), finish.retention('cancelled'), finish.retention('discarded'))
  local done, surplus = trim_index('workflows', longest, max_finished)
  for _, id in ipairs(surplus) do
    local key = ctx.prefix .. 'workflow:' .. id
    call('UNLINK', key, key .. ':nodes', key .. ':results')
    call('ZREM', ctx.prefix .. 'workflows', id)
  end
  return done
end

-- Limits that were not used for this long, and that no setting names, are deleted.
local LIMIT_MS = 3600000

local function is_unused(name)
  local available, waiting, of_file, of_admin, override, hold, starts, quota, until_ms =
    unpack(call('HMGET', name, 'n', 'w', 'f', 'a', 'o', 'hold', 'b', 'j', 'until'))
  local overridden = override and (tonumber(until_ms or nil) or ctx.now) >= ctx.now
  starts = starts or ''
  local last = tonumber(match(starts, '(%d+),%d+;$') or match(starts, '(%d+);$') or nil) or 0
  local period = tonumber(match(quota or '', '^%S+ %S+ (%d+)') or nil) or 0
  return (tonumber(available or nil) or 0) <= 0 and (tonumber(waiting or nil) or 0) <= 0 and not of_file and not of_admin and not overridden
    and (tonumber(hold or nil) or 0) < ctx.steady and last + period < ctx.steady and call('EXISTS', name .. ':run') == 0
end

local function retain_limits(set)
  local idle = call('ZRANGEBYSCORE', set, '-inf', ctx.now - LIMIT_MS, 'LIMIT', 0, limit)
  for _, key in ipairs(idle) do
    local name = ctx.prefix .. 'limit:' .. key
    if is_unused(name) then
      call('UNLINK', name, name .. ':at', name .. ':tags')
      call('ZREM', set, key)
      call('ZREM', ctx.prefix .. 'wakes', key)
    else
      call('ZADD', set, ctx.now, key)
    end
  end
  return #idle
end

-- Deletes enqueue windows that no longer count (`limits/enqueue_window`).
local function retain_windows()
  local over = call('ZRANGEBYSCORE', ctx.prefix .. 'enqueues:at', '-inf', int(ctx.steady), 'LIMIT', 0, limit)
  if #over == 0 then return 0 end
  call('ZREM', ctx.prefix .. 'enqueues:at', unpack(over))
  for _, place in ipairs(over) do call('UNLINK', ctx.prefix .. 'enqueues:' .. place) end
  return #over
end

-- Returns the number of jobs that passed through a queue, as text; nil if it holds jobs.
local function passed_through(queue)
  local fields, passed = call('HGETALL', ctx.prefix .. 'counts:' .. queue), 0
  for place = 1, #fields, 2 do
    local name, number = fields[place], tonumber(fields[place + 1])
    if name == 'completed' or name == 'cancelled' or name == 'discarded' or name == 'taken' then
      passed = passed + number
    elseif number ~= 0 then
      return nil
    end
  end
  return int(passed)
end

-- Returns true if the queue has settings: paused, bounded, limited, in a pool, or shared between
-- tenants.
local function is_set_up(queue)
  return call('HEXISTS', ctx.prefix .. 'paused', queue) == 1 or call('HEXISTS', ctx.prefix .. 'bounds', queue) == 1
    or call('EXISTS', ctx.prefix .. 'limit:#' .. queue) == 1 or call('HEXISTS', ctx.prefix .. 'policy', 'o ' .. queue) == 1
    or call('HEXISTS', ctx.prefix .. 'policy', 'f ' .. queue) == 1
end

local function forget_queue(queue)
  call('UNLINK', ctx.prefix .. 'counts:' .. queue)
  for _, name in ipairs({'queues', 'idle', 'bounds:reported'}) do call('HDEL', ctx.prefix .. name, queue) end
  for _, field in ipairs({'mark ', 'dry ', 'fair_queues '}) do call('HDEL', ctx.prefix .. 'low_water', field .. queue) end
  call('SREM', ctx.prefix .. 'limited', queue)
  call('ZREM', ctx.prefix .. 'starved', queue)
end

-- Queues are created by their first job, and clients choose their names. No command records when
-- a queue was last used, so a portion is examined each second, and all of them again after a
-- minute.
local QUEUES_PER_CALL, PAUSE, MINUTE = 50, 1000, 60000

-- Ignores errors: a full Redis refuses writes that need memory, but deletions must go on.
local function try(...)
  redis.pcall(...)
end

local function retain_queues(max_idle)
  local cursor, due = match(call('GET', ctx.prefix .. 'idle:at') or '', '^(%d+) (%d+)$')
  -- A time further ahead than the longest pause was written before the clock was set back.
  if due and ctx.now < tonumber(due) and tonumber(due) - ctx.now <= MINUTE then return end
  local found = call('HSCAN', ctx.prefix .. 'queues', cursor or '0', 'COUNT', QUEUES_PER_CALL)
  for place = 1, #found[2], 2 do
    local queue = found[2][place]
    local passed, known = passed_through(queue), call('HGET', ctx.prefix .. 'idle', queue)
    local since, before = match(known or '', '^(%d+) (%-?%d+)$')
    if not passed then
      if known then call('HDEL', ctx.prefix .. 'idle', queue) end
    elseif passed ~= before or ctx.now < tonumber(since) then
      try('HSET', ctx.prefix .. 'idle', queue, ctx.now_text .. ' ' .. passed)
    elseif ctx.now - since >= max_idle and not is_set_up(queue) then
      forget_queue(queue)
    end
  end
  try('SET', ctx.prefix .. 'idle:at', found[1] .. ' ' .. int(ctx.now + (found[1] == '0' and MINUTE or PAUSE)))
end

-- An entry holds the events of one call, so the oldest entry to keep is found by its running
-- number.
local function trim_events(max_events)
  local portion = call('XRANGE', ctx.prefix .. 'events', '-', '+', 'COUNT', 16)
  local kept
  for _, entry in ipairs(portion) do
    if tonumber(entry[2][2]) > ctx.events - max_events then
      kept = entry[1]
      break
    end
  end
  if kept then
    call('XTRIM', ctx.prefix .. 'events', 'MINID', kept)
  elseif #portion > 0 then
    local ids = {}
    for position, entry in ipairs(portion) do ids[position] = entry[1] end
    call('XDEL', ctx.prefix .. 'events', unpack(ids))
    return limit
  end
  return 0
end

local function run()
  local args = packed.read()
  limit = args.limit
  local handled = math.max(retain_finished(args.max_finished), retain_dead(args.max_dead), retain_workflows(args.max_finished),
    retain_limits(ctx.prefix .. 'limits'), retain_limits(ctx.prefix .. 'limits:stopped'), retain_windows())
  retain_queues(args.max_idle)
  if ctx.events > args.max_events then handled = math.max(handled, trim_events(args.max_events)) end
  commit()
  return packed.write(handled >= limit)
end

return run
