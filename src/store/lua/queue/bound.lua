-- Queue bounds: the maximum number of available, scheduled and retryable jobs of a queue.
--
-- key            type  meaning
-- bounds         hash  queue → `maximum strategy mark warning`: the strategy is reject, block or
--                      drop_oldest; producers are warned above the depth `mark`, which is the part
--                      `warning` of the maximum
-- bounds:reported  hash  queue → w (producers were warned) or r (refused); each change is reported
--                      once
-- state.bounded        number of queues with a bound; missing if there are none

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local detach = require('queue/detach')
local failure_module = require('queue/failure')
local existing = require('queue/unique').existing
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local emit, int, per_call = runtime.emit, runtime.int, runtime.per_call
local apply_deferred, apply_earlier = runtime.apply_deferred, runtime.apply_earlier
local LEVEL, lane_flush = lane_module.LEVEL, lane_module.flush
local job_load, mark = job_module.load, job_module.mark
local job_detach = detach.job_detach
local discard, record_failure = failure_module.discard, failure_module.record_failure
local server_failure = failure_module.server_failure
local call = redis.call
local match = string.match

local LANES_EXAMINED, MAX_DROPPED = 64, 1000
local bounds = per_call()

local function bound_of(queue)
  if bounds()[queue] == nil then
    local most, strategy, warned_from = match(call('HGET', ctx.prefix .. 'bounds', queue) or '', '^(%d+) (%S+) (%d+)')
    bounds()[queue] = most and {queue = queue, most = tonumber(most), strategy = strategy, mark = tonumber(warned_from)} or false
  end
  return bounds()[queue]
end

local function depth_of(queue)
  apply_earlier()
  local stored, changed = call('HMGET', ctx.prefix .. 'counts:' .. queue, 'available', 'scheduled', 'retryable'), ctx.counts[queue] or {}
  local depth = (changed.available or 0) + (changed.scheduled or 0) + (changed.retryable or 0)
  for index = 1, 3 do depth = depth + (tonumber(stored[index] or nil) or 0) end
  return depth
end

local function report(bound, event, letter, depth, more)
  if call('HGET', ctx.prefix .. 'bounds:reported', bound.queue) == letter then return end
  if letter then call('HSET', ctx.prefix .. 'bounds:reported', bound.queue, letter) else call('HDEL', ctx.prefix .. 'bounds:reported', bound.queue) end
  emit('backpressure.' .. event, {id = bound.queue, type = '', queue = bound.queue}, '"depth":' .. int(depth) .. ',"bound":'
    .. int(bound.most) .. ',"strategy":"' .. bound.strategy .. '"' .. (more or ''))
end

-- Returns the id of the oldest ready job of a queue. Considers no jobs of tenants that take turns,
-- because they are not ordered by age.
local function oldest_of(queue)
  local id, lowest
  for _, lane in ipairs(call('ZRANGE', ctx.prefix .. 'ready:' .. queue, 0, LANES_EXAMINED - 1)) do
    local head = call('ZRANGE', ctx.prefix .. 'lane:' .. queue .. ':' .. lane, 0, 0, 'WITHSCORES')
    local place = head[1] and tonumber(head[2]) % LEVEL
    if place and (not lowest or place < lowest) then id, lowest = head[1], place end
  end
  return id
end

-- Drops the `number` oldest jobs of a queue. Returns false if not all of them could be dropped.
local function drop_oldest(bound, number)
  lane_flush()
  for _ = 1, math.min(number, MAX_DROPPED) do
    local id = oldest_of(bound.queue)
    local job = id and job_load(id)
    if not job then return false end
    job_detach(job)
    local failure = server_failure('overflow', 'the queue is full and drops its oldest jobs')
    record_failure(job, failure.entry)
    mark(job, 'x')
    emit('backpressure.dropped', job, '"bound":' .. int(bound.most))
    discard(job, false, failure.error)
  end
  return number <= MAX_DROPPED
end

-- Returns the number of jobs that the request adds to each queue with a bound. A unique job with a
-- duplicate does not count, because it is not stored.
local function wanted_of(list, first, jobs, words)
  local wanted = {}
  for index = 0, jobs - 1 do
    local at = first + index * words
    local queue, more = list[at + 1], list[at + 5]
    if bound_of(queue) and not wire.fields(more).pending and not existing(more) then
      wanted[queue] = (wanted[queue] or 0) + 1
    end
  end
  return wanted
end

-- Returns the result that refuses the request as a whole; or nil and the warning about its fullest
-- queue, which is nil if no queue is above its mark.
local function refusal_of(list, first, jobs, words)
  local wanted, pressure, fullest = wanted_of(list, first, jobs, words), nil, 0
  apply_deferred()
  for queue, number in pairs(wanted) do
    local bound, depth = bound_of(queue), depth_of(queue)
    if depth + number > bound.most and (bound.strategy ~= 'drop_oldest' or number > bound.most) then
      report(bound, 'rejected', 'r', depth)
      return wire.join('bound', queue, int(depth), int(bound.most), bound.strategy)
    end
  end
  for queue, number in pairs(wanted) do
    local bound, depth = bound_of(queue), depth_of(queue)
    local surplus = depth + number - bound.most
    if surplus > 0 and not drop_oldest(bound, surplus) then
      report(bound, 'rejected', 'r', depth)
      return wire.join('bound', queue, int(depth), int(bound.most), bound.strategy)
    end
    depth = math.min(depth + number, bound.most)
    if depth > bound.mark then
      if surplus <= 0 then report(bound, 'warning', 'w', depth) end
      if depth / bound.most > fullest then
        fullest, pressure = depth / bound.most, wire.join('', '!', queue, int(depth), int(bound.most))
      end
    else
      report(bound, 'cleared', false, depth)
    end
  end
  return nil, pressure
end

return {refusal = refusal_of}
