-- Stops lanes, queues and jobs that a limit does not let start, and wakes lanes when the limit has
-- room. `limits/lanes` lists the keys.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local quotas = require('tenants/quotas')
local held_time = require('limits/held_time')
local lanes_module = require('limits/lanes')
local job_module = require('queue/job')
local fair_queue_write = require('fairness/fair_queue_write')
local finish = require('queue/finish')
local quota = require('limits/quota')
local runtime = require('lib/runtime')

local on_begin, emit, gather, int = runtime.on_begin, runtime.emit, runtime.gather, runtime.int
local signal, stamp, subject = runtime.signal, runtime.stamp, runtime.subject
local LEVEL, lane_flush, lane_limits = lane_module.LEVEL, lane_module.flush, lane_module.limits
local limit_label = lane_module.limit_label
local TOLD_AGAIN_MS, tenant_exceeded = quotas.REPORT_INTERVAL_MS, quotas.emit_exceeded
local lane_enter, lane_tenant = lanes_module.lane_enter, lanes_module.lane_tenant
local lane_unpark = lanes_module.lane_unpark
local job_move, job_save, job_set, job_wait = job_module.move, job_module.save, job_module.set, job_module.wait
local mark = job_module.mark
local fair_flush = fair_queue_write.fair_flush
local job_finish = finish.job_finish
local limit_grows_at, limit_open, limit_reserve = quota.limit_grows_at, quota.limit_open, quota.limit_reserve
local limit_room = quota.limit_room
local call = redis.call
local match = string.match

local M = {}

M.metrics = nil

local WOKEN_A_CALL = 64
local woken_now
local TICK_MS = 100

on_begin(function()
  woken_now = 0
  M.metrics = {} -- for metrics, in groups of four: kind, key, strategy, ms
end)

local function report_metric(kind, key, strategy, ms)
  local at = #M.metrics
  M.metrics[at + 1], M.metrics[at + 2], M.metrics[at + 3], M.metrics[at + 4] = kind, key, strategy, int(ms)
end

-- Has lanes that wait for a limit examined at a time. If that is before the next tick, reports it,
-- so that the process sets a timer.
M.wake_at = function(key, at)
  call('ZADD', job_module.WAKES, 'LT', int(at), key)
  if at - ctx.now < TICK_MS then report_metric('due', key, '', at - ctx.now) end
end

local function limit_event(kind, key, more)
  emit('rate_limit.' .. kind, subject(''), '"key":"' .. limit_label(key) .. '"' .. more)
end

-- Reports that a tenant is at its concurrency limit. A busy tenant reaches the limit with each
-- start, so this is reported again only after a pause.
-- The lane that was stopped already counts as waiting.
local function report_tenant_stopped(limit, owner, number, current)
  local since = tonumber(limit.hit or nil)
  limit.hit = ctx.now_text
  if limit.waiting == 1 then -- no other lane waits for it
    call('HSET', limit.name, 'hit', ctx.now_text, 'since', ctx.now_text)
  else
    call('HSET', limit.name, 'hit', ctx.now_text)
  end
  if since and ctx.now - since < TOLD_AGAIN_MS then return end
  report_metric('tenant', owner, 'max_concurrency', 0)
  tenant_exceeded(owner, 'max_concurrency', current, number, 'held')
end

-- Reports that a limit began to stop a lane: once per lane and change, not once per worker.
M.report_exceeded = function(limit, why, number, current)
  local owner = match(limit.key, '^!(.*)$')
  if owner then return report_tenant_stopped(limit, owner, number, current) end
  call('HINCRBY', limit.name, 'x' .. why, '1')
  report_metric('exceeded', limit_label(limit.key), why, 0)
  limit_event('exceeded', limit.key, ',"strategy":"' .. why .. '","limit":' .. int(number) .. ',"current":' .. int(current))
end

-- Reports the start of a job that a limit held back.
M.report_released = function(key, why, id, waited)
  report_metric('released', limit_label(key), why, waited)
  limit_event('released', key, ',"strategy":"' .. why .. '","job_id":"' .. id .. '","waited_ms":' .. int(waited))
end

-- Returns a tenant's start tag under a limit. It is not before the tag of the lane that was woken
-- last, so that absence earns nothing.
M.start_tag = function(limit, tenant)
  local tags = call('HMGET', limit.name .. ':tags', tenant, '@')
  return math.max(tonumber(tags[1] or nil) or 0, tonumber(tags[2] or nil) or 0)
end

-- Reports that a queue's own limit stops it. The lanes of the queue stay where they are.
M.stop_queue = function(source, why, at, number, current)
  local limit = source.limit
  if at then M.wake_at(limit.key, at) end
  if limit.hit == why then return end
  limit.hit = why
  call('HSET', limit.name, 'hit', why)
  held_time.begin(limit.key, why)
  M.report_exceeded(limit, why, number, current)
end

-- Records that a queue that was stopped starts a job.
M.resume_queue = function(source)
  local limit = source.limit
  if not limit.hit then return end
  limit.hit = nil
  call('HDEL', limit.name, 'hit')
  held_time.finish(limit.key)
end

-- Has waiting lanes examined because room under a limit was not used. Returns true if there are
-- any.
M.wake_if_waiting = function(key)
  local limit = limit_open(key)
  if limit.waiting > 0 then call('ZADD', job_module.WAKES, ctx.now_text, key) end
  return limit.waiting > 0
end

M.drop_job = function(job, limit)
  gather('ZREM', job_module.DUE, job.id)
  job_finish(job, 'discarded')
  limit_event('dropped', limit.key, ',"job_id":"' .. job.id .. '","job_type":"' .. job.type .. '"')
  emit('job.discarded', job, '"state":"discarded","total_attempts":' .. job.attempt
    .. ',"last_error":{"code":"rate_limited","message":"dropped by its rate limit","retryable":false}')
end

-- Reserves a start for the next job of a lane whose jobs are postponed, and returns its time. Each
-- job gets a slot of its own.
M.reserve_start = function(queue, lane)
  local at = ctx.now + 1
  for _, key in ipairs(lane_limits(queue, lane)) do at = math.max(at, limit_reserve(limit_open(key))) end
  return at
end

-- Postpones a job. `put_off` records the time and the limit that first postponed it.
M.postpone_job = function(job, at, limit, why)
  job_move(job, 'scheduled')
  if not job.put_off then job_set(job, 'put_off', ctx.now_text .. ' ' .. why .. ' ' .. limit.key) end
  job_set(job, 'due', int(at))
  if not job.shows_due then job_set(job, 'shows_due', '1') end
  mark(job, 'l')
  job_wait(job, at)
  job_save(job)
  emit('job.scheduled', job, '"state":"scheduled","scheduled_at":' .. stamp(int(at)) .. ',"reason":"rate_limit"')
end

-- Makes a waiting lane ready again.
M.wake_lane = function(queue, lane, key)
  local lane_key = ctx.prefix .. 'lane:' .. queue .. ':' .. lane
  local head = call('ZRANGE', lane_key, '0', '0', 'WITHSCORES')
  lane_unpark(queue, lane, key, call('ZCARD', lane_key))
  if not head[1] then return end
  lane_enter(queue, lane, head[2])
end

-- Returns the ready lanes under a limit by queue and priority, and the waiting lanes by queue.
local function lanes_under(limit)
  local fields, ready, waiting = call('HGETALL', limit.name .. ':at'), {}, {}
  for position = 1, #fields, 2 do
    local number = tonumber(fields[position + 1])
    local priority, queue = match(fields[position], '^r p(%S+) (.*)$')
    if priority then
      local levels = ready[queue] or {}
      ready[queue], levels[tonumber(priority)] = levels, number
    else
      waiting[match(fields[position], '^w (.*)$')] = number
    end
  end
  return ready, waiting
end

-- Wakes lanes of one queue that wait for a limit, in their order, while there is room besides the
-- ready lanes of their priority and above. Returns false if it stopped because this call has woken
-- enough.
local function wake_queue(limit, room, queue, lanes, ready)
  local most = math.min(room, lanes)
  local first = call('ZRANGE', ctx.prefix .. 'wait:' .. limit.key .. ':' .. queue, 0, int(math.min(most, WOKEN_A_CALL) - 1), 'WITHSCORES')
  for position = 1, #first, 2 do
    local lane, score, before = first[position], tonumber(first[position + 1]), (position - 1) / 2
    for priority, number in pairs(ready or {}) do
      if priority >= 100 - math.floor(score / LEVEL) then before = before + number end
    end
    if before >= room then return true end
    if woken_now >= WOKEN_A_CALL then return false end
    if lane_tenant(lane) then call('HSET', limit.name .. ':tags', '@', int(score % LEVEL)) end
    M.wake_lane(queue, lane, limit.key)
    woken_now, limit.waiting = woken_now + 1, limit.waiting - 1
  end
  return #first / 2 >= most
end

-- Wakes lanes that wait for a limit, as far as it has room.
M.wake_limit = function(key)
  local queue, limit = match(key, '^#(.*)$'), limit_open(key)
  local room, _, at = limit_room(limit)
  if at and (limit.waiting > 0 or queue) then M.wake_at(key, at) end
  if room <= 0 then return end
  if queue and call('ZSCORE', lane_module.LIVE, queue) then signal('ready ' .. queue) end
  if limit.waiting <= 0 then return end
  local ready, waiting = lanes_under(limit)
  for name, lanes in pairs(waiting) do
    if not wake_queue(limit, room, name, lanes, ready[name]) then
      call('ZADD', job_module.WAKES, ctx.now_text, key) -- the next call continues
    end
  end
  at = limit.waiting > 0 and limit_grows_at(limit)
  if at then M.wake_at(key, at) end
end

-- Wakes lanes whose limits may have room by now. Returns true if all of them were handled. If there
-- are more limits than one call handles and `only_if_few` is set, returns nil without having done
-- anything.
local function wake_due(only_if_few)
  lane_flush() -- slots that this call has freed, and jobs that it has pushed
  if not ctx.state.limits then return true end
  local keys = call('ZRANGEBYSCORE', job_module.WAKES, '-inf', ctx.now_text, 'LIMIT', '0', int(WOKEN_A_CALL + 1))
  if #keys == 0 then return true end
  if #keys > WOKEN_A_CALL then
    if only_if_few then return nil end
    keys[#keys] = nil
  end
  call('ZREM', job_module.WAKES, unpack(keys))
  for _, key in ipairs(keys) do M.wake_limit(key) end
  lane_flush()
  fair_flush() -- so that this call finds the tenants that it woke
  return #keys < WOKEN_A_CALL and woken_now < WOKEN_A_CALL
end

M.report_metric = report_metric
M.wake_due = wake_due

return M
