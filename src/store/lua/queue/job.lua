-- A job's record and its moves between states.
--
-- job:ID     string  the record, as text: see below
-- env:ID     string  an envelope too long to be copied at every step; shorter ones are the end of the record
-- err:ID     list    failed attempts, `attempt US ms US json`
-- res:ID     string  the result
-- par:ID     string  what a dead letter of a workflow was given to work on; other jobs of one find it in their workflow
-- prog:ID, chk:ID  hash  how far it has got: see `commands/progress` and `commands/checkpoint`
-- due        zset    waiting jobs by the next time something happens to them: they become available, or are given up
-- leases     zset    active jobs by their next deadline: the truth about what runs
-- held       zset    `worker US id` of active jobs, all of score 0, read by range of worker
-- finished:S zset    jobs that ended in state S, by when; dead: those of them in the dead letter
--
-- A record is one string, because a key costs more than anything inside it: what changes RS what does not RS envelope.
-- What changes are the 17 fields of `job_save`, separated by US and empty where there is nothing; `marks` are letters: f has
-- failures, e the last of them still counts, r has a result, d dead letter, x expired, s staged, l put off by a limit, p has told its progress, k has a checkpoint, c called off with its workflow while it ran, h handed to another system. What does not change is queue US type US
-- lane US and pairs of name US value US. The envelope is the client's text, opaque to scripts (cjson would change `[]` and
-- large integers). JSON holds no control characters, so the separators stand out. src/job/record.rs reads the same.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local lane_module = require('queue/lane')
local level = require('fairness/level')
local activity = require('tenants/activity')
local runtime = require('lib/runtime')

local on_begin, gather, int, signal, per_call = runtime.on_begin, runtime.gather, runtime.int, runtime.signal, runtime.per_call
local count_move = job_counts.count_move
local is_cap, lane_base, lane_limits = lane_module.is_cap, lane_module.base, lane_module.limits
local lane_push, lane_score = lane_module.push, lane_module.score
local tenant_lane, type_lane = level.tenant_lane, level.type_lane
local did = activity.did
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local M = {}

M.DUE, M.LEASES, M.HELD, M.WAKES = nil, nil, nil, nil
on_begin(function()
  M.DUE, M.LEASES, M.HELD, M.WAKES = ctx.prefix .. 'due', ctx.prefix .. 'leases', ctx.prefix .. 'held', ctx.prefix .. 'wakes'
end)

local CHANGING = '^' .. string.rep('([^\31]*)\31', 16) .. '([^\30]*)\30()'
local FIXED = '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\30]*)\30'

-- The job, unless it is not there; nor is one of another tenant, for a caller who sees those of one alone. Who has read the record
-- brings it along.
local function job_load(id, scope, text)
  local key = ctx.prefix .. 'job:' .. id
  text = text or call('GET', key)
  if not text then return nil end
  local state, attempt, place, created, enqueued, started, finished, visible_until, worker, op, period, stalled_at,
    next_retry, retry_delay, activated, pool, marks, rest = match(text, CHANGING)
  local queue, type, lane, more = match(text, FIXED, rest)
  -- All at once: a table that grows field by field is laid out anew five times.
  local job = {id = id, key = key, text = text, rest = rest, state = state, attempt = tonumber(attempt), seq = place,
    created = created, enqueued = enqueued, started = started, finished = finished, visible_until = visible_until,
    worker = worker, op = op, period = period, stalled_at = stalled_at, next_retry = next_retry,
    retry_delay = retry_delay, activated = activated, pool = pool, marks = marks, queue = queue, type = type, lane = lane}
  if more ~= '' then
    for name, value in string.gmatch(more, '([^\31]+)\31([^\31]*)\31') do job[name] = value end
  end
  if scope and scope ~= '' and scope ~= (job.tenant or '_default') then return nil end
  return job
end

local byte, END = string.byte, 30 -- what further fields end with

-- Whether the further fields at that place of a record say nothing that leasing and completing a job would mind, and whose the job is, if
-- they tell. Names are in the order in which jobs are stored. (`%C`, all but control characters, ends at either separator, so that a
-- match never runs on into what is behind. Who has others in a name goes the way of jobs that are not plain, here and in their patterns.)
local function further_plain(text, at)
  if byte(text, at) == END then return true end
  local tenant, behind = match(text, '^tenant\31(%C*)\31()', at)
  at = behind or at
  at = match(text, '^quota\31%C*\31()', at) or at
  if byte(text, at) ~= END then at = match(text, '^priority\31%C*\31()', at) or at end
  if byte(text, at) ~= END then at = match(text, '^by\31%C*\31()', at) or at end
  return byte(text, at) == END, tenant
end

-- Writes the record; a finished job with the time for which it is kept.
local function job_save(job, keep_ms)
  local rest = string.sub(job.text, job.rest)
  local text = job.state .. '\31' .. int(job.attempt) .. '\31' .. job.seq .. '\31' .. job.created .. '\31' .. job.enqueued
    .. '\31' .. job.started .. '\31' .. job.finished .. '\31' .. job.visible_until .. '\31' .. job.worker .. '\31' .. job.op
    .. '\31' .. job.period .. '\31' .. job.stalled_at .. '\31' .. job.next_retry .. '\31' .. job.retry_delay
    .. '\31' .. job.activated .. '\31' .. job.pool .. '\31' .. job.marks .. '\30' .. rest
  if keep_ms then
    call('SET', job.key, text, 'PX', keep_ms)
  else
    call('SET', job.key, text)
  end
  job.text, job.rest = text, #text - #rest + 1
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

-- A node of a workflow: a job, or a chain, group or batch of nodes, which are numbered from `first` on: `count` steps or jobs,
-- then callbacks. `workflows/workflow` has the rest.
local JOB = '^job\31(%d*)\31([^\31]*)\31(%l+)\31([^\31]*)\31([^\31]*)\31(%d*)\31(%d*)$'
local PARENT = '^(%l+)\31(%d*)\31([^\31]*)\31(%l+)\31(%d+)\31(%d+)\31(%d+)\31(%d+)\31(%d+)\31(%d+)\31(%d*)$'

local function node_read(text)
  local parent, slot, state, id, type, started, finished = match(text, JOB)
  if parent then
    return {kind = 'job', parent = tonumber(parent), slot = slot, state = state, id = id, type = type, started = started,
      finished = finished}
  end
  local kind, above, place, now_is, first, count, callbacks, ok, failed, fired, ended = match(text, PARENT)
  return {kind = kind, parent = tonumber(above), slot = place, state = now_is, first = tonumber(first), count = tonumber(count),
    callbacks = tonumber(callbacks), ok = tonumber(ok), failed = tonumber(failed), fired = tonumber(fired), finished = ended}
end

-- Appends what each of so many nodes from `first` on gave: a job its result, a chain that of its last step, the others an array.
local function outputs(key, first, count, list)
  if count == 0 then return list end
  local numbers = {}
  for index = 1, count do numbers[index] = first + index - 1 end
  local nodes, results = call('HMGET', key .. ':nodes', unpack(numbers)), call('HMGET', key .. ':results', unpack(numbers))
  for index = 1, count do
    local node = node_read(nodes[index])
    if node.kind == 'job' then
      list[#list + 1] = results[index] or 'null'
    elseif node.kind == 'chain' then
      outputs(key, node.first + node.count - 1, 1, list)
    else
      list[#list + 1] = '[' .. concat(outputs(key, node.first, node.count, {}), ',') .. ']'
    end
  end
  return list
end

-- What came before a node: the steps before it in its chain, and before that chain; for a callback its batch's jobs.
local function inputs(key, number, list)
  local node = node_read(call('HGET', key .. ':nodes', number))
  if not node.parent then return list end
  local parent = node_read(call('HGET', key .. ':nodes', node.parent))
  if number >= parent.first + parent.count then return outputs(key, parent.first, parent.count, list) end
  inputs(key, node.parent, list)
  if parent.kind == 'chain' then outputs(key, parent.first, number - parent.first, list) end
  return list
end

-- What a job of a workflow is given to work on, as a JSON array. Nothing once all of that is gone.
local function job_inputs(job)
  local key = ctx.prefix .. 'workflow:' .. job.workflow
  if call('EXISTS', key) == 0 then return call('GET', ctx.prefix .. 'par:' .. job.id) or '' end
  return '[' .. concat(inputs(key, tonumber(job.node), {}), ',') .. ']'
end

-- What Rust needs to show the job: its record and, where there are some, RS failures RS result RS envelope RS checkpoint RS inputs.
local function job_view(job)
  if (job.marks == '' or job.marks == 's') and not job.apart and not job.inputs then return job.text end
  local failures = marked(job, 'f') and concat(call('LRANGE', ctx.prefix .. 'err:' .. job.id, 0, -1), '\29') or ''
  local result = marked(job, 'r') and call('GET', ctx.prefix .. 'res:' .. job.id) or ''
  local envelope = job.apart and call('GET', ctx.prefix .. 'env:' .. job.id) or ''
  local kept = marked(job, 'k') and concat(call('HMGET', ctx.prefix .. 'chk:' .. job.id, 'n', 't', 's'), '\31') or ''
  return concat({job.text, failures, result, envelope, kept, job.inputs and job_inputs(job) or nil}, '\30')
end

-- Sets one of the fields that otherwise do not change, or removes it where there is no value.
local function job_set(job, name, value)
  local fixed, envelope = match(string.sub(job.text, job.rest), '^([^\30]*)\30(.*)$')
  fixed = string.gsub(fixed, '\31' .. name .. '\31[^\31]*\31', '\31', 1)
  if value then fixed = fixed .. name .. '\31' .. value .. '\31' end
  job[name], job.text = value, string.sub(job.text, 1, job.rest - 1) .. fixed .. '\30' .. envelope
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

-- Changes the lane that a job was enqueued for.
local function job_set_lane(job, lane)
  local names, rest = match(string.sub(job.text, job.rest), '^([^\31]*\31[^\31]*\31)[^\31]*(.*)$')
  job.lane, job.text = lane, string.sub(job.text, 1, job.rest - 1) .. names .. lane .. rest
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
  if own ~= job.lane then job_set_lane(job, own) end
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
    gather('ZREM', M.HELD, job.worker .. '\31' .. job.id)
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

M.further_plain = further_plain
M.is_limited = is_limited
M.expiry = job_expiry
M.inputs = job_inputs
M.load = job_load
M.make_available = job_make_available
M.move = job_move
M.save = job_save
M.set = job_set
M.timeout = job_timeout
M.view = job_view
M.wait = job_wait
M.lease_deadline = lease_deadline
M.lease_hand_back = lease_hand_back
M.lease_release = lease_release
M.lower = lower
M.mark = mark
M.marked = marked
M.node_read = node_read
M.slots_release = slots_release
M.unmark = unmark

return M
