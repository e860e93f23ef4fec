-- A job's record and its moves between states.
--
-- job:ID     string  the record
-- env:ID     string  an envelope too long to be copied at every step; shorter ones are the end of the record
-- err:ID     list    failed attempts, `attempt US ms US json`
-- res:ID     string  the result
-- par:ID     string  what a dead letter of a workflow was given to work on; other jobs of one find it in their workflow
-- prog:ID, chk:ID  hash  how far it has got: see `commands/progress` and `commands/checkpoint`
-- due        zset    waiting jobs by the next time something happens to them: they become available, or are given up
-- leases     zset    active jobs by their next deadline: the truth about what runs
-- finished:S zset    jobs that ended in state S, by when; dead: those of them in the dead letter
--
-- `lib/record` describes the record.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local lane_module = require('queue/lane')
local level = require('fairness/level')
local activity = require('tenants/activity')
local held = require('queue/held')
local record = require('lib/record')
local job_inputs = require('workflows/inputs').of_job
local runtime = require('lib/runtime')

local on_begin, gather, int, signal, per_call = runtime.on_begin, runtime.gather, runtime.int, runtime.signal, runtime.per_call
local count_move = job_counts.count_move
local is_cap, lane_base, lane_limits = lane_module.is_cap, lane_module.base, lane_module.limits
local lane_push, lane_score = lane_module.push, lane_module.score
local tenant_lane, type_lane = level.tenant_lane, level.type_lane
local did = activity.count_attempts
local call = redis.call
local find = string.find

local M = {}

local NONE = {} -- nobody changes it

M.DUE, M.LEASES, M.WAKES = nil, nil, nil
on_begin(function()
  M.DUE, M.LEASES, M.WAKES = ctx.prefix .. 'due', ctx.prefix .. 'leases', ctx.prefix .. 'wakes'
end)

-- Loads a job; nil if there is none. A caller that sees the jobs of one tenant alone names it as `scope`, and a caller that has read
-- the record passes it on as `text`.
local function job_load(id, scope, text)
  local key = ctx.prefix .. 'job:' .. id
  text = text or call('GET', key)
  if not text then return nil end
  local job = record.decode(id, key, text)
  if scope and scope ~= '' and scope ~= (job.tenant or '_default') then return nil end
  return job
end

-- Writes the record; a finished job with the time for which it is kept.
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

-- What Rust needs to show the job: its record and, if there are any, failures, result, envelope, checkpoint and inputs.
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

-- The lower of two times; either may be missing.
local function lower(a, b)
  a, b = tonumber(a), tonumber(b)
  if not a or b and b < a then return b end
  return a
end

-- When a waiting job is given up: `expires` always, `ttl` before its first start, `total` over all attempts.
local function job_expiry(job)
  if job.expires or job.ttl or job.total then
    return lower(lower(job.expires, job.total), job.attempt == 0 and job.ttl or nil)
  end
end

-- Keeps the time of a waiting job's next change, if it has one: `at`, or that it is given up.
local function job_wait(job, at)
  local next_change = lower(at, job_expiry(job))
  if next_change then gather('ZADD', M.DUE, next_change, job.id) end
end

-- The sequence is new where the job joins the queue anew, and the old one where it was only handed back.
local function job_make_available(job, keeps_place)
  job_move(job, 'available')
  if not keeps_place then
    ctx.seq = ctx.seq + 1
    job.seq = int(ctx.seq)
  end
  job.enqueued = ctx.now_text
  local own = type_lane(job.lane, job.type)
  if own ~= job.lane then record.set_lane(job, own) end
  local lane = tenant_lane(job.queue, own, job.tenant, job.rule)
  local entry = lane_push(job.queue, lane, job.id, lane_score(tonumber(job.priority) or 0, tonumber(job.seq)))
  entry.rule, entry.quota = job.rule, job.quota or entry.quota
  job_wait(job)
end

-- When the execution timeout strikes; heartbeats do not move it.
local function job_timeout(job)
  return tonumber(job.started) + (tonumber(job.timeout) or tonumber(ctx.args[3])) + (tonumber(job.grace) or 0)
end

local function lease_deadline(job)
  local deadline = lower(job.visible_until, job_timeout(job))
  if job.stalled_at ~= '' or job.total then deadline = lower(deadline, lower(job.stalled_at, job.total)) end
  return deadline
end

-- A slot under a limit is free. Who waits for it is looked at by the next fetch, which those who listen are told to send.
local function slot_free(key)
  local limit = ctx.prefix .. 'limit:' .. key
  if (tonumber(ctx.state.parked) or 0) == 0 or (tonumber(call('HGET', limit, 'w') or nil) or 0) <= 0 then return end
  call('ZADD', M.WAKES, ctx.now_text, key)
  for _, field in ipairs(call('HKEYS', limit .. ':at')) do
    if string.sub(field, 1, 2) == 'w ' then signal('ready ' .. string.sub(field, 3)) end
  end
end

local looked_at = per_call() -- pools, and queues with whether they have a limit of their own, once a call

-- A pool that was full is told to its workers.
local function pool_leave(name, id)
  local key = ctx.prefix .. 'pool:' .. name
  gather('SREM', key .. ':run', id)
  if looked_at()[key] then return end
  looked_at()[key] = true
  local pool = call('HMGET', key, 'full', 'queues')
  if pool[1] then
    call('HDEL', key, 'full')
    for queue in string.gmatch(pool[2] or '', '%S+') do signal('ready ' .. queue) end
  end
end

-- Whether a queue has a limit of its own.
local function is_limited(queue)
  if not ctx.state.limits then return false end
  -- Mostly none has: then that is all that is asked.
  if looked_at()[''] == nil then looked_at()[''] = call('EXISTS', ctx.prefix .. 'limited') == 1 end
  if looked_at()[''] and looked_at()[queue] == nil then looked_at()[queue] = call('SISMEMBER', ctx.prefix .. 'limited', queue) == 1 end
  return looked_at()[''] and looked_at()[queue]
end

-- What a lease counts against counts it no more.
local function slots_release(id, queue, lane, tenant, pool)
  if pool ~= '' then pool_leave(pool, id) end
  if find(ctx.state.policy, '[xy]') then lane = lane_base(lane) .. ';s=1;t=' .. (tenant or '_default') end
  if find(lane, ';', 1, true) then
    local keys = lane_limits(queue, lane)
    for place = 1, #keys do
      local key = keys[place]
      if not is_cap(key) then
        gather('SREM', ctx.prefix .. 'limit:' .. key .. ':run', id)
        slot_free(key)
      end
    end
  end
  if find(ctx.allowed, 'c', 1, true) then slot_free('!' .. (tenant or '_default')) end
  if is_limited(queue) then
    slot_free('#' .. queue)
    signal('ready ' .. queue)
  end
end

local function lease_release(job)
  did(job.tenant, 'c', 0, ctx.now - (tonumber(job.started) or ctx.now))
  gather('ZREM', M.LEASES, job.id)
  slots_release(job.id, job.queue, job.lane, job.tenant, job.pool)
  job.pool = ''
  if job.worker ~= '' then
    held.remove(job.worker, job.id)
    job.worker = ''
  end
  job.stalled_at = ''
end

-- An active job goes back to its place, unharmed.
local function lease_hand_back(job)
  lease_release(job)
  job_make_available(job, true)
  job_save(job)
end

M.is_limited = is_limited
M.expiry = job_expiry
M.inputs = job_inputs
M.load = job_load
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
