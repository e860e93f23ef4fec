-- Stores new jobs. A request is all or nothing.
--
-- A request is: op ('' where the server made the ids: then an id is proof enough), jobs, 1 if ids may exist already (sent by the
-- client, or this is a resend), version of the plan rules it was read under; for each job: id, queue, type, lane, priority, further
-- fields as `name US value US …`, envelope. Among the further fields are `pending`, and times `due`, `expires`, `ttl`, `total` in ms,
-- or as '+ms' from now. A planned job has `rule`, as the first of them, and `tenant`.
-- Its answer is `ok US created US state US due US state US due …`, `duplicate US index US id`, `stale` if other rules hold now,
-- `full US rule US most US staged`, `exists US index US id US state US key` if a unique job has a duplicate, `bound US queue US depth US
-- most US strategy` if a queue is full, `limited US index US tenant US limit US current US maximum US ms` if a tenant's limit refuses
-- it, or `error US text`. The state of a job that was not stored, because its like exists, is `=` and the id of that one. Behind `ok` and all jobs may stand `! US queue US depth
-- US most` of a queue that fills up, then `? US tenant US limit` for each soft limit that was exceeded.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
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
local settle, stamp = runtime.settle, runtime.stamp
local tally = job_counts.count_tenant
local lane_push, lane_score = lane_module.push, lane_module.score
local job_stored = activity.count_stored
local job_load, job_wait = job_module.load, job_module.wait
local tenant_lane, job_stage, plan_open = level.tenant_lane, stage.job_stage, plan_module.open
local join, join_list = wire.join, wire.join_list
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local WORDS = 7
-- A longer envelope has a key of its own, so that it is not copied whenever the job's state changes.
local LONG = 8192
local pusher -- whose job the request brought before
local TIMES = {due = true, expires = true, ttl = true, total = true}

-- Gives a new job its further fields, with times made absolute. Returns them as they are stored, which is without `pending`.
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

-- A request whose answer was lost is sent again with the same op: its jobs are there, and it gets the first answer.
local function replay(op, first, jobs)
  local parts, created = {}, nil
  for index = 0, jobs - 1 do
    local stored = job_load(ctx.args[first + index * WORDS])
    if stored then
      if op ~= '' and stored.by ~= op then return join('duplicate', index, stored.id) end
      created = stored.created
      parts[index + 1] = join(stored.state, stored.due or '')
    else
      -- Gone since, if the others are there; or never stored, because its like was there.
      local existing = unique.existing(ctx.args[first + index * WORDS + 5])
      parts[index + 1] = join(existing and '=' .. existing.id or 'completed', '')
    end
  end
  return created and join('ok', created, join_list(parts))
end

-- Whether a job would be available if no plan wanted it otherwise.
local function waits_now(more)
  local fields = wire.fields(more)
  if not fields.pending and not fields.due then return true end
  local job = {}
  take_fields(job, more)
  return not job.pending and not (job.due and job.due > ctx.now)
end

local request -- the one under way, if it has several jobs; `left` is how many of them could run now and have not passed

on_begin(function()
  request = nil
end)

-- A request begins whose words are in a list.
local function request_begin(words, first, jobs)
  request = jobs > 1 and {words = words, first = first, jobs = jobs} or nil
end

-- How many jobs of the request could run now, by `rule US queue`.
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

-- Lets a job pass if there is room for it and for all other jobs of its request that are for the same rule and queue.
local function request_fits(rule, queue, room)
  if not request then return true end
  request.left = request.left or planned_jobs()
  local key = join(rule, queue)
  local left = request.left[key] or 1
  if room < left then return false end
  request.left[key] = left - 1
  return true
end

local measures -- whether tenants are limited in what they enqueue

on_begin(function()
  measures = find(ctx.allowed, 'e', 1, true)
end)

-- Raises or lowers the priority of a new job by its tenant's boost.
local function apply_boost(job, lane, priority, more)
  local boost = ctx.allowed ~= '' and quotas.boost(job.tenant)
  if not boost then return lane, priority, more end
  priority = math.max(-100, math.min(priority + boost, 100))
  job.priority = int(priority)
  return string.gsub(lane, '^p%-?%d+', 'p' .. job.priority), priority, wire.set_field(more, 'priority', job.priority)
end

-- Stores the job whose words begin at `at` of a list.
local function store(op, words, at)
  local id, queue, type, lane, priority = words[at], words[at + 1], words[at + 2], words[at + 3], tonumber(words[at + 4])
  local more, envelope = words[at + 5], words[at + 6]
  local job = {id = id, type = type, queue = queue, attempt = 0, tenant = nil, rule = nil, priority = nil, seq = nil}
  if more ~= '' then more = take_fields(job, more) end
  lane, priority, more = apply_boost(job, lane, priority, more)
  if job.unique then
    local existing
    more, existing = unique.take(job, more)
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
  -- A limit without a key is the queue's own.
  if job.quota then lanes.limit_renew(match(lane, ';k=([^;]+)') or '#' .. queue, job.quota) end
  if #envelope > LONG then
    call('SET', ctx.prefix .. 'env:' .. id, envelope)
    more, envelope = more .. wire.field('apart', '1'), ''
  end
  if op ~= '' then more = more .. wire.field('by', op) end
  call('SET', ctx.prefix .. 'job:' .. id, record.new(state, seq, ctx.now_text, enqueued, marks, queue, type, lane, more, envelope))
  local owner = job.tenant or '_default'
  job_stored(queue, state, owner, owner ~= pusher)
  tally(owner, marks == 's' and 'staged' or state, 1)
  pusher = owner
  return join(state, job.due and int(job.due) or '')
end

-- The first rule whose bound on staged jobs so many jobs would exceed.
local function over_bound(words, first, jobs)
  local wanted = {}
  for index = 0, jobs - 1 do
    local more = words[first + index * WORDS + 5]
    local rule = wire.fields(more).rule
    local plan = rule and plan_open(rule)
    if plan and plan.most and waits_now(more) then
      wanted[rule] = (wanted[rule] or 0) + 1
      if plan.staged + wanted[rule] > plan.most then
        return join('full', rule, int(plan.most), int(plan.staged))
      end
    end
  end
end

-- Stores the jobs whose words begin at `first`. An import is not refused, because its producer has its answer already; it may even exceed
-- the rule's bound if `exceeds_bound`.
local function enqueue(op, first, jobs, may_exist, version, import)
  local replayed = may_exist and replay(op, first, jobs)
  if replayed then return replayed end
  if version ~= ctx.state.rules then return 'stale' end
  local full = version ~= '' and not (import and import.exceeds_bound) and over_bound(ctx.args, first, jobs)
  if full then return full end
  local passes = measures and enqueue_limits.pass(ctx.args, first, jobs, WORDS)
  local exceeded, enter
  if not passes then
    local conflict = unique.conflict(first, jobs, WORDS)
    if conflict then return conflict end
    if measures then
      local limited
      limited, exceeded, enter = enqueue_limits.admit(ctx.args, first, jobs, WORDS, import)
      if limited then return limited end
    end
  end
  local pressure = ''
  if ctx.state.bounded and not import then
    local refused, told = bound.refusal(ctx.args, first, jobs, WORDS)
    if refused then
      if measures then enqueue_limits.leave() end
      return refused
    end
    pressure = told or ''
  end
  if enter then
    enter()
    pressure = pressure .. exceeded
  end
  pusher = nil
  request_begin(ctx.args, first, jobs)
  if jobs == 1 then return join('ok', ctx.now_text, store(op, ctx.args, first) .. pressure) end
  local parts = {}
  for index = 1, jobs do parts[index] = store(op, ctx.args, first + (index - 1) * WORDS) end
  return join('ok', ctx.now_text, join_list(parts) .. pressure)
end

-- The answer to the request whose words begin at `at`, and where the next one begins.
local function enqueue_request(at)
  local jobs = ctx.args[at + 1] == '1' and 1 or tonumber(ctx.args[at + 1])
  local result = guarded(enqueue, ctx.args[at], at + 4, jobs, ctx.args[at + 2] == '1', ctx.args[at + 3])
  return type(result) == 'table' and join_list(result) or result, at + 4 + jobs * WORDS
end

-- Queues spring into existence with their first job.
local function queues_note()
  settle()
  for queue in pairs(ctx.counts) do call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text) end
end

return {
  WORDS = WORDS,
  enqueue = enqueue,
  enqueue_request = enqueue_request,
  over_bound = over_bound,
  request_begin = request_begin,
  queues_note = queues_note,
  store = store,
}
