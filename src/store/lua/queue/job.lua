-- Loads and saves jobs, moves them between states and ends leases.
--
-- key               type    meaning
-- job:ID            string  the record (`lib/record`)
-- env:ID            string  an envelope that is too long to be copied with every change
-- err:ID            list    failed attempts: `attempt US ms US json`
-- res:ID            string  the result
-- par:ID            string  inputs of a dead letter of a workflow; other jobs of a workflow find
--                           their inputs in it
-- prog:ID, chk:ID   hash    progress and checkpoint (`commands/progress`, `commands/checkpoint`)
-- due               zset    waiting jobs by the next time at which they become available or expire
-- leases            zset    active jobs by their next deadline; this set defines which jobs run
--
-- `queue/finish` owns the sets of finished jobs.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local lane_module = require('queue/lane')
local level = require('fairness/level')
local activity = require('tenants/activity')
local worker_jobs = require('queue/worker_jobs')
local record = require('lib/record')
local job_inputs = require('workflows/inputs').of_job
local number_in = require('lib/number').number_in
local runtime = require('lib/runtime')

local on_begin, gather, int, signal, per_call = runtime.on_begin, runtime.gather, runtime.int, runtime.signal, runtime.per_call
local count_move = job_counts.count_move
local is_tenant_limit, lane_base, lane_limits = lane_module.is_tenant_limit, lane_module.base, lane_module.limits
local lane_push, lane_score = lane_module.push, lane_module.score
local tenant_lane, type_lane = level.tenant_lane, level.type_lane
local count_attempts = activity.count_attempts
local call = redis.call
local find = string.find

local M = {}

local NONE = {} -- shared, must not be changed

M.DUE, M.LEASES, M.WAKES = nil, nil, nil
on_begin(function()
  M.DUE, M.LEASES, M.WAKES = ctx.prefix .. 'due', ctx.prefix .. 'leases', ctx.prefix .. 'wakes'
end)

-- Loads a job; returns nil if it does not exist. A caller that is bound to one tenant passes it as
-- `scope`, and gets nil for jobs of other tenants. A caller that has read the record passes it as
-- `text`.
local function job_load(id, scope, text)
  local key = ctx.prefix .. 'job:' .. id
  text = text or call('GET', key)
  if not text then return nil end
  local job = record.decode(id, key, text)
  if scope and scope ~= '' and scope ~= (job.tenant or '_default') then return nil end
  return job
end

-- Writes the record. A finished job expires after `keep_ms`.
local function job_save(job, keep_ms)
  if keep_ms then
    call('SET', job.key, record.encode(job), 'PX', keep_ms)
  else
    call('SET', job.key, record.encode(job))
  end
end

local function marked(job, letter)
  return string.find(job.marks, letter, 1, true)
end

local function mark(job, letter)
  if not marked(job, letter) then job.marks = job.marks .. letter end
end

local function unmark(job, letter)
  if job.marks ~= '' then job.marks = string.gsub(job.marks, letter, '') end
end

-- Returns all that Rust needs to show a job: its record and, if they exist, failures, result,
-- envelope, checkpoint and inputs.
local function job_view(job)
  if (job.marks == '' or job.marks == 's') and not job.apart and not job.inputs then return job.text end
  local failures = marked(job, 'f') and call('LRANGE', ctx.prefix .. 'err:' .. job.id, 0, -1) or NONE
  local result = marked(job, 'r') and (job.result or call('GET', ctx.prefix .. 'res:' .. job.id)) or ''
  local envelope = job.apart and call('GET', ctx.prefix .. 'env:' .. job.id) or ''
  local checkpoint = marked(job, 'k') and call('HMGET', ctx.prefix .. 'chk:' .. job.id, 'n', 't', 's') or NONE
  return record.view(job.text, failures, result, envelope, checkpoint, job.inputs and job_inputs(job) or nil)
end

local function job_move(job, state)
  count_move(job.queue, job.tenant, job.state, state)
  job.state = state
end

-- Returns the lower of two times; either may be missing.
local function lower(a, b)
  a, b = number_in(a), number_in(b)
  if not a or b and b < a then return b end
  return a
end

-- Returns the time at which a waiting job expires, or nil: `expires` always applies, `ttl` before
-- the first start, `total` to all attempts together.
local function job_expiry(job)
  if job.expires or job.ttl or job.total then
    return lower(lower(job.expires, job.total), job.attempt == 0 and job.ttl or nil)
  end
end

-- Schedules the next change of a waiting job: the time `at`, or its expiry. Does nothing if there
-- is neither.
local function job_wait(job, at)
  local expiry = job_expiry(job)
  if at or expiry then gather('ZADD', M.DUE, int(lower(at, expiry)), job.id) end
end

-- Puts an available job into its lane. It gets a new sequence and so goes to the end of the queue,
-- unless it `keeps_place`.
local function job_enter_lane(job, keeps_place)
  if not keeps_place then
    ctx.seq = ctx.seq + 1
    job.seq = int(ctx.seq)
  end
  job.enqueued = ctx.now_text
  job.lane = type_lane(job.lane, job.type)
  local lane = tenant_lane(job.queue, job.lane, job.tenant, job.rule)
  local entry = lane_push(job.queue, lane, job.id, lane_score(number_in(job.priority) or 0, tonumber(job.seq)))
  entry.rule, entry.quota = job.rule, job.quota or entry.quota
  job_wait(job)
end

-- Makes a job available, at the end of its queue or at its old place.
local function job_make_available(job, keeps_place)
  job_move(job, 'available')
  job_enter_lane(job, keeps_place)
end

-- Returns the time of the execution timeout. Heartbeats do not extend it.
local function job_timeout(job)
  return number_in(job.started) + (job.timeout and number_in(job.timeout) or ctx.settings.timeout) + (job.grace and number_in(job.grace) or 0)
end

local function lease_deadline(job)
  local visible, timeout = number_in(job.visible_until), job_timeout(job)
  local deadline = visible < timeout and visible or timeout
  if job.stalled_at ~= '' or job.total then deadline = lower(deadline, lower(job.stalled_at, job.total)) end
  return deadline
end

-- Frees a slot under a limit. If lanes wait for it, the next fetch examines them; a signal makes
-- waiting workers fetch.
local function free_slot(key)
  local limit = ctx.prefix .. 'limit:' .. key
  if (tonumber(ctx.state.parked) or 0) == 0 or (tonumber(call('HGET', limit, 'w') or nil) or 0) <= 0 then return end
  call('ZADD', M.WAKES, ctx.now_text, key)
  for _, field in ipairs(call('HKEYS', limit .. ':at')) do
    if string.sub(field, 1, 2) == 'w ' then signal('ready ' .. string.sub(field, 3)) end
  end
end

local cached = per_call() -- pools that this call has handled, and queues with a limit of their own

-- Frees a slot of a pool. If the pool was full, signals its workers.
local function pool_leave(name, id)
  local key = ctx.prefix .. 'pool:' .. name
  gather('SREM', key .. ':run', id)
  if cached()[key] then return end
  cached()[key] = true
  local pool = call('HMGET', key, 'full', 'queues')
  if pool[1] then
    call('HDEL', key, 'full')
    for queue in string.gmatch(pool[2] or '', '%S+') do signal('ready ' .. queue) end
  end
end

-- Returns true if a queue has a limit of its own.
local function is_limited(queue)
  if not ctx.state.limits then return false end
  -- In most cases no queue has one, and EXISTS is the only command.
  if cached()[''] == nil then cached()[''] = call('EXISTS', ctx.prefix .. 'limited') == 1 end
  if cached()[''] and cached()[queue] == nil then cached()[queue] = call('SISMEMBER', ctx.prefix .. 'limited', queue) == 1 end
  return cached()[''] and cached()[queue]
end

-- Frees the slots that a lease takes under limits and in its pool.
local function slots_release(id, queue, lane, tenant, pool)
  if pool ~= '' then pool_leave(pool, id) end
  if find(ctx.state.policy, '[xy]') then lane = lane_base(lane) .. ';s=1;t=' .. (tenant or '_default') end
  if find(lane, ';', 1, true) then
    local keys = lane_limits(queue, lane)
    for place = 1, #keys do
      local key = keys[place]
      if not is_tenant_limit(key) then
        gather('SREM', ctx.prefix .. 'limit:' .. key .. ':run', id)
        free_slot(key)
      end
    end
  end
  if find(ctx.tenant_limits, 'c', 1, true) then free_slot('!' .. (tenant or '_default')) end
  if is_limited(queue) then
    free_slot('#' .. queue)
    signal('ready ' .. queue)
  end
end

-- Ends the lease of an active job. `completed` is 1 if its attempt succeeded.
local function lease_release(job, completed)
  count_attempts(job.tenant, 'c', completed or 0, ctx.now - (number_in(job.started) or ctx.now))
  gather('ZREM', M.LEASES, job.id)
  slots_release(job.id, job.queue, job.lane, job.tenant, job.pool)
  job.pool = ''
  if job.worker ~= '' then
    worker_jobs.remove(job.worker, job.id)
    job.worker = ''
  end
  job.stalled_at = ''
end

-- Makes an active job available again, at its old place.
local function lease_hand_back(job)
  lease_release(job)
  job_make_available(job, true)
  job_save(job)
end

M.is_limited = is_limited
M.expiry = job_expiry
M.inputs = job_inputs
M.load = job_load
M.enter_lane = job_enter_lane
M.make_available = job_make_available
M.move = job_move
M.save = job_save
M.set = record.set
M.timeout = job_timeout
M.view = job_view
M.wait = job_wait
M.lease_deadline = lease_deadline
M.lease_hand_back = lease_hand_back
M.lease_release = lease_release
M.lower = lower
M.mark = mark
M.marked = marked
M.slots_release = slots_release
M.unmark = unmark

return M
