-- Stores new jobs. A request is stored as a whole or not at all.
--
-- Arguments of a request:
-- op         '' if the server generated the ids: then the id alone identifies the request
-- jobs       number of jobs
-- may exist  1 if the ids may exist: the client sent them, or the request is sent again
-- version    version of the plan rules under which the request was read
-- Then for each job: id, queue, type, lane, priority, further fields (`lib/wire`), envelope.
-- Further fields may include `pending` and the times `due`, `expires`, `ttl` and `total`, in ms or
-- as `+ms` from now. A planned job has `rule`, as the first of them, and `tenant`.
--
-- Results:
-- ok US created US state US due US …   stored. A unique job that was not stored because it has a
--                                      duplicate has the state `=` and the id of the duplicate.
--                                      After the jobs may follow `! US queue US depth US maximum`
--                                      of a queue that fills up, then `? US tenant US limit` for
--                                      each soft limit that the request exceeds
-- duplicate US index US id             an id exists
-- stale                                the version of the plan rules has changed
-- full US rule US maximum US staged    the rule's bound on staged jobs would be exceeded
-- exists US index US id US state US key                                a unique job has a duplicate
-- bound US queue US depth US maximum US strategy                       a queue is full
-- limited US index US tenant US limit US current US maximum US ms      a tenant's limit refuses it
-- error US text

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local activity = require('tenants/activity')
local job_module = require('queue/job')
local level = require('fairness/level')
local stage = require('staging/stage')
local plan_module = require('staging/plan')
local unique = require('queue/unique')
local bound = require('queue/bound')
local enqueue_limits = require('limits/enqueue_limits')
local lanes = require('limits/lanes')
local quotas = require('tenants/quotas')
local record = require('lib/record')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, guarded, int = runtime.on_begin, runtime.emit, runtime.guarded, runtime.int
local apply_deferred, stamp = runtime.apply_deferred, runtime.stamp
local lane_push, lane_score = lane_module.push, lane_module.score
local job_stored = activity.count_stored
local job_load, job_wait = job_module.load, job_module.wait
local tenant_lane, job_stage, plan_open = level.tenant_lane, stage.job_stage, plan_module.open
local join, join_list = wire.join, wire.join_list
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local WORDS = 7
-- A longer envelope is stored under a key of its own, so that it is not copied with every change of
-- the job's state.
local LONG = 8192
local last_owner -- the tenant of the request's previous job
local TIMES = {due = true, expires = true, ttl = true, total = true}

-- Sets the further fields of a new job, with absolute times. Returns them as they are stored: with
-- absolute times and without `pending`.
local function take_fields(job, more)
  local is_as_stored = true
  for name, value in pairs(wire.fields(more)) do
    if TIMES[name] then
      job[name], is_as_stored = string.sub(value, 1, 1) == '+' and ctx.now + tonumber(value) or tonumber(value), false
    else
      job[name], is_as_stored = value, is_as_stored and name ~= 'pending'
    end
  end
  if is_as_stored then return more end
  local parts = {}
  for name, value in wire.each_field(more) do
    if name ~= 'pending' then parts[#parts + 1] = wire.field(name, TIMES[name] and int(job[name]) or value) end
  end
  return concat(parts)
end

-- Returns the first result again for a request that is sent again with the same `op` because its
-- reply was lost; nil if none of its jobs exists.
local function replay(op, first, jobs)
  local parts, created = {}, nil
  for index = 0, jobs - 1 do
    local stored = job_load(ctx.args[first + index * WORDS])
    if stored then
      if op ~= '' and stored.by ~= op then return join('duplicate', index, stored.id) end
      created = stored.created
      parts[index + 1] = join(stored.state, stored.due or '')
    else
      -- The job is missing: it has a duplicate and was never stored, or it was removed since.
      local existing = unique.existing(ctx.args[first + index * WORDS + 5])
      parts[index + 1] = join(existing and '=' .. existing.id or 'completed', '')
    end
  end
  return created and join('ok', created, join_list(parts))
end

-- Returns true if a job would be available at once without a plan rule.
local function waits_now(more)
  local fields = wire.fields(more)
  if not fields.pending and not fields.due then return true end
  local job = {}
  take_fields(job, more)
  return not job.pending and not (job.due and job.due > ctx.now)
end

-- The current request if it has several jobs. `left` counts the jobs of each rule and queue that
-- could run now and have not passed through yet.
local request

on_begin(function()
  request = nil
end)

-- Begins a request whose arguments are in a list.
local function request_begin(words, first, jobs)
  request = jobs > 1 and {words = words, first = first, jobs = jobs} or nil
end

-- Returns the number of jobs of the request that could run now, by `rule US queue`.
local function planned_jobs()
  local planned = {}
  for at = request.first, request.first + (request.jobs - 1) * WORDS, WORDS do
    local more = request.words[at + 5]
    local rule = wire.fields(more).rule
    if rule and waits_now(more) then
      local key = join(rule, request.words[at + 1])
      planned[key] = (planned[key] or 0) + 1
    end
  end
  return planned
end

-- Returns true if `room` suffices for a job and for all other jobs of its request with the same
-- rule and queue: a request passes through as a whole or not at all.
local function request_fits(rule, queue, room)
  if not request then return true end
  request.left = request.left or planned_jobs()
  local key = join(rule, queue)
  local left = request.left[key] or 1
  if room < left then return false end
  request.left[key] = left - 1
  return true
end

local limits_enqueues -- true if tenants have limits on what they enqueue

on_begin(function()
  limits_enqueues = find(ctx.tenant_limits, 'e', 1, true)
end)

-- Changes the priority of a new job by the boost of its tenant.
local function apply_boost(job, lane, priority, more)
  local boost = quotas.boost(job.tenant)
  if not boost then return lane, priority, more end
  priority = math.max(-100, math.min(priority + boost, 100))
  job.priority = int(priority)
  return string.gsub(lane, '^p%-?%d+', 'p' .. job.priority), priority, wire.set_field(more, 'priority', job.priority)
end

-- Stores the job whose arguments begin at position `at` of a list.
local function store(op, words, at)
  local id, queue, type, lane, priority = words[at], words[at + 1], words[at + 2], words[at + 3], tonumber(words[at + 4])
  local more, envelope = words[at + 5], words[at + 6]
  local job = {id = id, type = type, queue = queue, attempt = 0, tenant = nil, rule = nil, priority = nil, seq = nil}
  if more ~= '' then more = take_fields(job, more) end
  if ctx.tenant_limits ~= '' then lane, priority, more = apply_boost(job, lane, priority, more) end
  if job.unique then
    local existing
    more, existing = unique.claim(job, more)
    if existing then return join('=' .. existing.id, '') end
  end
  local state, seq, enqueued, marks = 'available', '', '', ''
  if job.pending then
    state = 'pending'
  elseif job.due and job.due > ctx.now then
    state = 'scheduled'
  end
  job_wait(job, state == 'scheduled' and job.due or nil)
  if state == 'available' and job.rule and job_stage(job, request_fits) then
    state, seq, marks = 'pending', job.seq, 's'
    emit('job.staged', job, '"state":"pending"')
  elseif state == 'available' then
    ctx.seq = ctx.seq + 1
    seq, enqueued = int(ctx.seq), ctx.now_text
    local entry = lane_push(queue, tenant_lane(queue, lane, job.tenant, job.rule), id, lane_score(priority, ctx.seq))
    entry.rule = job.rule
    emit('job.enqueued', job, '"state":"available"')
  elseif state == 'scheduled' then
    emit('job.scheduled', job, '"state":"scheduled","scheduled_at":' .. stamp(int(job.due)))
  end
  -- A limit without a key belongs to the queue.
  if job.quota then lanes.limit_renew(match(lane, ';k=([^;]+)') or '#' .. queue, job.quota) end
  if #envelope > LONG then
    call('SET', ctx.prefix .. 'env:' .. id, envelope)
    more, envelope = more .. wire.field('apart', '1'), ''
  end
  if op ~= '' then more = more .. wire.field('by', op) end
  call('SET', ctx.prefix .. 'job:' .. id, record.new(state, seq, ctx.now_text, enqueued, marks, queue, type, lane, more, envelope))
  local owner = job.tenant or '_default'
  job_stored(queue, marks == 's' and 'staged' or state, owner, owner == last_owner and 0 or 1)
  last_owner = owner
  return join(state, job.due and int(job.due) or '')
end

-- Returns the result `full` for the first rule whose bound on staged jobs the request would exceed,
-- else nil.
local function over_bound(words, first, jobs)
  local wanted = {}
  for index = 0, jobs - 1 do
    local more = words[first + index * WORDS + 5]
    local rule = more ~= '' and wire.fields(more).rule
    local plan = rule and plan_open(rule)
    if plan and plan.most and waits_now(more) then
      wanted[rule] = (wanted[rule] or 0) + 1
      if plan.staged + wanted[rule] > plan.most then
        return join('full', rule, int(plan.most), int(plan.staged))
      end
    end
  end
end

-- Stores the jobs whose arguments begin at `first`. An import is not refused by bounds and limits,
-- because its producer already has a response; it may exceed the rule's bound only if
-- `exceeds_bound` is set.
local function enqueue(op, first, jobs, may_exist, version, import)
  local replayed = may_exist and replay(op, first, jobs)
  if replayed then return replayed end
  if version ~= ctx.state.rules then return 'stale' end
  local full = version ~= '' and not (import and import.exceeds_bound) and over_bound(ctx.args, first, jobs)
  if full then return full end
  local passes = limits_enqueues and enqueue_limits.try_count(ctx.args, first, jobs, WORDS)
  local exceeded, record_enqueues
  if not passes then
    local conflict = unique.conflict(first, jobs, WORDS)
    if conflict then return conflict end
    if limits_enqueues then
      local limited
      limited, exceeded, record_enqueues = enqueue_limits.check(ctx.args, first, jobs, WORDS, import)
      if limited then return limited end
    end
  end
  local pressure = ''
  if ctx.state.bounded and not import then
    local refused, warning = bound.refusal(ctx.args, first, jobs, WORDS)
    if refused then
      if limits_enqueues then enqueue_limits.undo_count() end
      return refused
    end
    pressure = warning or ''
  end
  if record_enqueues then
    record_enqueues()
    pressure = pressure .. exceeded
  end
  last_owner = nil
  request_begin(ctx.args, first, jobs)
  if jobs == 1 then return join('ok', ctx.now_text, store(op, ctx.args, first) .. pressure) end
  local parts = {}
  for index = 1, jobs do parts[index] = store(op, ctx.args, first + (index - 1) * WORDS) end
  return join('ok', ctx.now_text, join_list(parts) .. pressure)
end

-- Handles the request that begins at `at`. Returns its result and the position of the next request.
local function enqueue_request(at)
  local jobs = ctx.args[at + 1] == '1' and 1 or tonumber(ctx.args[at + 1])
  local result = guarded(enqueue, ctx.args[at], at + 4, jobs, ctx.args[at + 2] == '1', ctx.args[at + 3])
  return type(result) == 'table' and join_list(result) or result, at + 4 + jobs * WORDS
end

-- Registers queues that are used for the first time.
local function register_queues()
  apply_deferred()
  for queue in pairs(ctx.counts) do call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text) end
end

return {
  WORDS = WORDS,
  enqueue = enqueue,
  enqueue_request = enqueue_request,
  over_bound = over_bound,
  request_begin = request_begin,
  register_queues = register_queues,
  store = store,
}
