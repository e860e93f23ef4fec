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
local runtime = require('lib/runtime')

local on_begin, emit, guarded, int = runtime.on_begin, runtime.emit, runtime.guarded, runtime.int
local settle, stamp = runtime.settle, runtime.stamp
local tally = job_counts.tally
local lane_push, lane_score = lane_module.push, lane_module.score
local job_stored = activity.job_stored
local job_load, job_wait = job_module.load, job_module.wait
local tenant_lane, job_stage, plan_open = level.tenant_lane, stage.job_stage, plan_module.open
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local WORDS = 7
-- A longer envelope has a key of its own, so that it is not copied whenever the job's state changes.
local LONG = 8192
local pusher -- whose job the request brought before
local TIMES = {due = true, expires = true, ttl = true, total = true}

-- Further fields as they are stored, times made absolute.
local function read_more(job, more)
  local parts = {}
  for name, value in string.gmatch(more, '([^\31]+)\31([^\31]*)\31') do
    if TIMES[name] then
      local at = string.sub(value, 1, 1) == '+' and ctx.now + tonumber(value) or tonumber(value)
      job[name], value = at, int(at)
    else
      job[name] = value
    end
    if name == 'priority' then job.priority_at = #parts + 1 end
    if name ~= 'pending' then parts[#parts + 1] = name .. '\31' .. value .. '\31' end
  end
  return parts
end

-- A request whose answer was lost is sent again with the same op: its jobs are there, and it gets the first answer.
local function replay(op, first, jobs)
  local parts, created = {}, nil
  for index = 0, jobs - 1 do
    local stored = job_load(ctx.args[first + index * WORDS])
    if stored then
      if op ~= '' and stored.by ~= op then return 'duplicate\31' .. index .. '\31' .. stored.id end
      created = stored.created
      parts[index + 1] = stored.state .. '\31' .. (stored.due or '')
    else
      -- Gone since, if the others are there; or never stored, because its like was there.
      local existing = unique.existing(ctx.args[first + index * WORDS + 5])
      parts[index + 1] = existing and '=' .. existing.id .. '\31' or 'completed\31'
    end
  end
  return created and 'ok\31' .. created .. '\31' .. concat(parts, '\31')
end

-- Whether a job would be available if no plan wanted it otherwise.
local function waits_now(more)
  if not find(more, '\31pending\31', 1, true) and not find(more, '\31due\31', 1, true) then return true end
  local job = {}
  read_more(job, more)
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
    local rule = match(more, '^rule\31([^\31]+)\31')
    if rule and waits_now(more) then
      local key = rule .. '\31' .. request.words[at + 1]
      planned[key] = (planned[key] or 0) + 1
    end
  end
  return planned
end

-- Lets a job pass if there is room for it and for all other jobs of its request that are for the same rule and queue.
local function request_fits(rule, queue, room)
  if not request then return true end
  request.left = request.left or planned_jobs()
  local key = rule .. '\31' .. queue
  local left = request.left[key] or 1
  if room < left then return false end
  request.left[key] = left - 1
  return true
end

local fresh -- the record of a job that is available from now on, between its place and what does not change
local measures -- whether tenants are limited in what they enqueue

on_begin(function()
  measures = find(ctx.allowed, 'e', 1, true)
  fresh = '\31' .. ctx.now_text .. '\31' .. ctx.now_text .. '\31\31\31\31\31\31\31\31\31\31\31\31\30'
end)

-- Stores a job without further fields, as most are: what `store` would write for it, without asking for each of them.
local function store_plain(op, id, queue, type, lane, priority, envelope)
  ctx.seq = ctx.seq + 1
  lane_push(queue, tenant_lane(queue, lane), id, lane_score(priority, ctx.seq)).rule = nil
  ctx.log[#ctx.log + 1] = 'job.enqueued\31' .. id .. '\31' .. type .. '\31' .. queue .. '\31\31"state":"available"'
  call('SET', ctx.prefix .. 'job:' .. id, 'available\0310\31' .. int(ctx.seq) .. fresh .. queue .. '\31' .. type .. '\31' .. lane
    .. (op ~= '' and '\31by\31' .. op .. '\31\30' or '\31\30') .. envelope)
  job_stored(queue, 'available', '_default', pusher ~= '_default')
  pusher = '_default'
  return 'available\31'
end

-- Stores the job whose words begin at `at` of a list.
local function store(op, words, at)
  local id, queue, type, lane = words[at], words[at + 1], words[at + 2], words[at + 3]
  local more, envelope = words[at + 5], words[at + 6]
  if more == '' and ctx.allowed == '' and #envelope <= LONG then
    return store_plain(op, id, queue, type, lane, tonumber(words[at + 4]), envelope)
  end
  local job = {id = id, type = type, queue = queue, attempt = 0, tenant = measures and enqueue_limits.owner(more)}
  local state, place, marks = 'available', '', ''
  local priority, parts = tonumber(words[at + 4]), more ~= '' and not job.tenant and read_more(job, more)
  local boost = ctx.allowed ~= '' and quotas.boost(job.tenant)
  if boost then
    parts, priority = parts or {more}, math.max(-100, math.min(priority + boost, 100))
    lane = string.gsub(lane, '^p%-?%d+', 'p' .. int(priority))
    parts[job.priority_at or #parts + 1] = 'priority\31' .. int(priority) .. '\31'
    job.priority = int(priority)
  end
  if parts then
    more = concat(parts)
    if job.unique then
      local existing
      more, existing = unique.take(job, more)
      if existing then return '=' .. existing.id .. '\31' end
    end
    if job.pending then
      state = 'pending'
    elseif job.due and job.due > ctx.now then
      state = 'scheduled'
    end
    job_wait(job, state == 'scheduled' and job.due or nil)
  end
  if state == 'available' and job.rule and job_stage(job, request_fits) then
    state, place, marks = 'pending', job.seq, 's'
    emit('job.staged', job, '"state":"pending"')
  elseif state == 'available' then
    ctx.seq = ctx.seq + 1
    place = int(ctx.seq)
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
    more, envelope = more .. 'apart\0311\31', ''
  end
  if op ~= '' then more = more .. 'by\31' .. op .. '\31' end
  local enqueued = state == 'available' and ctx.now_text or ''
  -- The fields of `job_save`, in their order.
  call('SET', ctx.prefix .. 'job:' .. id, state .. '\0310\31' .. place .. '\31' .. ctx.now_text .. '\31' .. enqueued
    .. '\31\31\31\31\31\31\31\31\31\31\31\31' .. marks .. '\30'
    .. queue .. '\31' .. type .. '\31' .. lane .. '\31' .. more .. '\30' .. envelope)
  local owner = job.tenant or '_default'
  job_stored(queue, state, owner, owner ~= pusher)
  tally(owner, marks == 's' and 'staged' or state, 1)
  pusher = owner
  return state .. '\31' .. (job.due and int(job.due) or '')
end

-- The first rule whose bound on staged jobs so many jobs would exceed.
local function over_bound(words, first, jobs)
  local wanted = {}
  for index = 0, jobs - 1 do
    local more = words[first + index * WORDS + 5]
    local rule = match(more, '^rule\31([^\31]+)\31')
    local plan = rule and plan_open(rule)
    if plan and plan.most and waits_now(more) then
      wanted[rule] = (wanted[rule] or 0) + 1
      if plan.staged + wanted[rule] > plan.most then
        return 'full\31' .. rule .. '\31' .. int(plan.most) .. '\31' .. int(plan.staged)
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
  if jobs == 1 then return 'ok\31' .. ctx.now_text .. '\31' .. store(op, ctx.args, first) .. pressure end
  local parts = {}
  for index = 1, jobs do parts[index] = store(op, ctx.args, first + (index - 1) * WORDS) end
  return 'ok\31' .. ctx.now_text .. '\31' .. concat(parts, '\31') .. pressure
end

-- The answer to the request whose words begin at `at`, and where the next one begins.
local function enqueue_request(at)
  local jobs = ctx.args[at + 1] == '1' and 1 or tonumber(ctx.args[at + 1])
  local result = guarded(enqueue, ctx.args[at], at + 4, jobs, ctx.args[at + 2] == '1', ctx.args[at + 3])
  return type(result) == 'table' and concat(result, '\31') or result, at + 4 + jobs * WORDS
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
