-- Counts leases against pools, workers and limits, and reports how limits affected a request.
--
-- `dispatch/pool` lists the keys of pools, `limits/lanes` those of limits.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local worker_jobs = require('queue/worker_jobs')
local job_module = require('queue/job')
local held_time = require('limits/held_time')
local lanes = require('limits/lanes')
local park = require('limits/park')
local quota_module = require('limits/quota')
local rate_buckets = require('limits/rate_buckets')
local level = require('fairness/level')
local source_module = require('dispatch/source')
local stop = require('dispatch/stop')
local pool_module = require('dispatch/pool')
local runtime = require('lib/runtime')

local on_begin, gather, int = runtime.on_begin, runtime.gather, runtime.int
local is_tenant_limit = lane_module.is_tenant_limit
local lane_tenant = lanes.lane_tenant
local job_set = job_module.set
local sharing_weight = level.sharing_weight
local limit_open, limit_room, limit_start = quota_module.limit_open, quota_module.limit_room, quota_module.limit_start
local newest_bucket = rate_buckets.newest
local limits_of = stop.limits_of
local orders, pool_admit, pool_open = pool_module.orders, pool_module.admit, pool_module.open
local call = redis.call
local match = string.match

local M = {}

M.worker_room = nil -- by worker: number of jobs that it can still take, if it has a capacity

on_begin(function()
  M.worker_room = {}
end)

-- Assigns a request to its worker's pool, limits it to the worker's capacity, and applies the
-- strategy that the worker registered if neither pool nor request has one. Returns the result that
-- refuses the request if the worker belongs to another pool.
local function admit(request)
  if request.how ~= '' then request.how = orders.requested(request.how, request.queues) end
  local worker = request.worker
  if worker == '' then return end
  local registered = ctx.state.gated and call('HMGET', ctx.prefix .. 'worker:' .. worker, 'pool', 'concurrency', 'how') or {}
  local refused = pool_admit(request, registered[1])
  if refused then return refused end
  if registered[3] and request.pool == '' and request.how == '' then request.how = orders.registered(registered[3], request.queues) end
  local most = tonumber(registered[2] or nil)
  if most and most > 0 and not M.worker_room[worker] then
    M.worker_room[worker] = most - worker_jobs.count(worker)
  end
end

-- Reports a job that a limit held back while it waited.
local function report_held(key, id, since)
  local waited, why = held_time.time(key, since)
  if waited then park.report_released(key, why, id, waited) end
end

-- Reports a job that limits postponed, for the time since the first of them did.
local function report_postponed(job)
  local since, why, key = match(job.put_off, '^(%d+) (%S+) (.*)$')
  park.report_released(key, why, job.id, ctx.now - since)
  job_set(job, 'put_off', nil)
end

-- Counts a lease against its limits and its pool. `since` is the time at which the job began to
-- wait. Returns the name of the pool, or ''.
local function lease_under(queue, id, rule, lane, request, since)
  local keys = limits_of(queue, lane)
  for place = 1, #keys do
    local key = keys[place]
    local limit = limit_open(key)
    limit_start(limit)
    if not is_tenant_limit(key) then
      gather('SADD', limit.run, id)
      report_held(key, id, since)
    end
    local tenant = limit.waiting > 0 and lane_tenant(lane.name)
    if tenant then -- the more jobs the tenant gets under this limit, the later its lanes are woken
      local tag = park.start_tag(limit, tenant) + 1000000 / sharing_weight(queue, tenant, rule)
      call('HSET', limit.name .. ':tags', tenant, int(tag))
    end
  end
  local source = source_module.sources[queue]
  if source.limit then
    limit_start(source.limit)
    park.resume_queue(source)
    report_held(source.limit.key, id, since)
  end
  if source.limit or #keys > 0 then request.limits, request.queue_limit = keys, source.limit end
  local room = M.worker_room[request.worker]
  if room then M.worker_room[request.worker] = room - 1 end
  local pool = request.pool ~= '' and pool_open(request.pool)
  if not pool then return '' end
  pool.running = pool.running + 1
  gather('SADD', pool.run, id)
  return pool.name
end

-- Maximum number of queues in which a limit is searched for a request that got nothing.
local MAX_QUEUES_SEARCHED = 8

-- Returns a limit that stops jobs which the request could have got; nil if none is known.
local function stopped_by(request)
  local queues, some_wait = request.served or request.queues, (tonumber(ctx.state.parked) or 0) > 0
  for place = 1, math.min(#queues, MAX_QUEUES_SEARCHED) do
    local queue = queues[place]
    local source = source_module.sources[queue]
    if source and source.limit and limit_room(source.limit) <= 0 then return source.limit end
    -- Limits that stop other tenants' jobs do not concern a request for one tenant.
    if source and source.stopped_by and request.tenant == '' then return source.stopped_by end
    local key
    if some_wait and request.tenant == '' then
      key = call('HRANDFIELD', ctx.prefix .. 'parked:' .. queue, '1', 'WITHVALUES')[2]
    elseif request.tenant ~= '' then
      local lane = call('SRANDMEMBER', ctx.prefix .. 'asleep:' .. queue .. ':' .. request.tenant)
      key = lane and call('HGET', ctx.prefix .. 'parked:' .. queue, lane)
    end
    if key then return limit_open(key) end
  end
end

-- Returns what is left of the limit that a request met: `maximum room ms`, or '' if it met none.
-- For a request that got jobs, it is the tightest limit of the last one; otherwise one that stops
-- jobs that it could have got.
local function limit_usage(request)
  local limit, room
  local function consider(other)
    local left = limit_room(other)
    if left < (room or math.huge) then limit, room = other, left end
  end
  if request.got > 0 then
    for _, key in ipairs(request.limits or {}) do consider(limit_open(key)) end
    if request.queue_limit then consider(request.queue_limit) end
  else
    limit = stopped_by(request)
    room = limit and limit_room(limit)
    if room ~= 0 then return '' end
  end
  local quota = limit and limit.quota or {}
  local most = quota.rate or quota.throttle or quota.concurrency
  if not most then return '' end
  local _, newest = newest_bucket(limit)
  local at = quota.rate and newest and newest + quota.period or quota.throttle and limit.next.ms or ctx.now
  if limit.hold > ctx.now then at = limit.hold end
  return int(most) .. ' ' .. int(room) .. ' ' .. int(math.max(at, ctx.now))
end

M.admit = admit
M.lease_under = lease_under
M.limit_usage = limit_usage
M.report_postponed = report_postponed

return M
