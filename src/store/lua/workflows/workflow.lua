-- Advances workflows. The script that ends a job also advances its workflow, so no crash can
-- separate the two. `workflows/record` reads and writes them.
--
-- workflow:ID          hash  see below
-- workflow:ID:nodes    hash  number from 0 → node; each node comes before its children
-- workflow:ID:jobs     hash  number → words of a job that is not stored yet, separated by RS
-- workflow:ID:results  hash  number → result of a job
-- workflows            zset  workflows that ended, by time
-- workflows:todo       list  deferred steps, done by the tick: `start`, `cancel` or `ended`, and
--                            the job
--
-- Fields of `workflow:ID`:
--   state, kind, tenant  state; chain, group or batch; tenant
--   name, meta           JSON
--   created, finished    times
--   by, op               operations that created and cancelled it
--   nodes, jobs          numbers of nodes and of jobs
--   ok, failed           numbers of jobs that completed and that failed
--   bytes                size of the results
--   steps                if the client named its steps: number of the node US layer US name,
--                        separated by RS
--
-- A node is fields separated by US:
--   job     `job`, parent, slot, state, id, type, started, finished
--   others  `chain`, `group` or `batch`, parent, slot, state, first child, number of children,
--           number of callbacks after them, children that succeeded, children that failed,
--           callbacks under way, finished
--
-- A slot is an index or the name of a callback. A node is `waiting`, then `open`, then completed,
-- failed or cancelled. A batch is `spoilt` once a callback has failed while others are under way.
-- Nodes still waiting inside a node that ended count as cancelled: Rust shows them so, and nothing
-- is written.

local ctx = require('lib/context')
local job_module = require('queue/job')
local enqueue = require('queue/enqueue')
local finish = require('queue/finish')
local cancel_job = require('workflows/cancel_job').cancel_job
local job_inputs = require('workflows/inputs').of_job
local record = require('workflows/record')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, emit, gather = runtime.on_begin, runtime.emit, runtime.gather
local guarded, int, on_commit, apply_deferred = runtime.guarded, runtime.int, runtime.on_commit, runtime.apply_deferred
local subject = runtime.subject
local job_load, marked = job_module.load, job_module.marked
local WORDS, store = enqueue.WORDS, enqueue.store
local emit_event, touch, write_all = record.emit_event, record.touch, record.write_all
local workflow_finish, workflow_node, workflow_open = record.finish, record.node, record.open
local call = redis.call
local match = string.match

local workflows = {}

-- Jobs started per call, to bound the time in Redis.
local STARTS_PER_CALL = 200
-- Bytes of results that a workflow keeps; later results are passed on by reference.
local MOST_BYTES = 4194304
local JOB_WORDS = wire.pattern(WORDS, wire.RECORD)
local ended, starts, known_queues

on_begin(function()
  ended, starts, known_queues = {}, 0, {}
end)

-- Opens a node and returns the numbers of the jobs that start with it.
local function open_node(workflow, number, jobs)
  local node = workflow_node(workflow, number)
  if node.kind == 'job' then
    jobs[#jobs + 1] = number
    return jobs
  end
  node.state = 'open'
  touch(workflow, number)
  for child = node.first, node.first + (node.kind == 'chain' and 1 or node.count) - 1 do open_node(workflow, child, jobs) end
  return jobs
end

-- Stores a job of the workflow as any other job is stored.
local function start(workflow, number, words)
  if not words then
    local text = call('HGET', workflow.key .. ':jobs', int(number))
    gather('HDEL', workflow.key .. ':jobs', int(number))
    words = {match(text, JOB_WORDS)}
  end
  store('', words, 1)
  local queue = words[2]
  if not known_queues[queue] then call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text) end
  known_queues[queue] = true
  workflow_node(workflow, number).state = 'open'
  touch(workflow, number)
end

-- Defers a step of a job to the tick: `start` or `cancel`.
workflows.defer = function(workflow, what, number)
  gather('RPUSH', ctx.prefix .. 'workflows:todo', what .. ' ' .. workflow.id .. ' ' .. int(number))
end

local function start_all(workflow, jobs)
  for _, number in ipairs(jobs) do
    if starts < STARTS_PER_CALL then
      starts = starts + 1
      start(workflow, number)
    else
      workflows.defer(workflow, 'start', number)
    end
  end
end

-- Returns the words of the first jobs, one job after the other, and their numbers.
-- `text_of(number)` returns the words of a job as stored.
workflows.first_jobs = function(workflow, text_of)
  local words, jobs = {}, open_node(workflow, 0, {})
  for index, number in ipairs(jobs) do
    local of_job = {match(text_of(number), JOB_WORDS)}
    for position = 1, WORDS do words[(index - 1) * WORDS + position] = of_job[position] end
  end
  return words, jobs
end

-- Starts the first jobs. If there are more than one call may start, the tick starts all of them,
-- because storing the workflow takes long enough; unless `all_at_once`.
workflows.start = function(workflow, words, jobs, all_at_once)
  emit_event(workflow, 'created')
  emit_event(workflow, 'started', ',"total_steps":' .. int(workflow_node(workflow, 0).count))
  local starts_now = all_at_once or #jobs <= STARTS_PER_CALL
  for index, number in ipairs(jobs) do
    if starts_now then
      start(workflow, number, {unpack(words, (index - 1) * WORDS + 1, index * WORDS)})
    else
      workflows.defer(workflow, 'start', number)
    end
  end
end

-- Starts the callbacks of a batch of which all jobs have ended. Returns true if there are any.
local function start_callbacks(workflow, node)
  local jobs = {}
  for number = node.first + node.count, node.first + node.count + node.callbacks - 1 do
    local callback = workflow_node(workflow, number)
    if callback.slot == 'on_complete' or callback.slot == (node.failed == 0 and 'on_success' or 'on_failure') then
      jobs[#jobs + 1] = number
      emit_event(workflow, 'callback_fired', ',"callback":"' .. callback.slot .. '","job_id":"' .. callback.id .. '"')
    end
  end
  node.fired = #jobs
  start_all(workflow, jobs)
  return #jobs > 0
end

-- Ends a node, and its parent if that was the last part of it.
local function node_end(workflow, number, state)
  local node = workflow_node(workflow, number)
  node.state, node.finished = state, ctx.now_text
  touch(workflow, number)
  if not node.parent then return workflow_finish(workflow, state) end
  local parent, succeeded = workflow_node(workflow, node.parent), state == 'completed'
  touch(workflow, node.parent)
  if number >= parent.first + parent.count then
    parent.fired = parent.fired - 1
    if not succeeded then parent.state = 'spoilt' end
    if parent.fired > 0 then return end
    return node_end(workflow, node.parent, parent.state == 'spoilt' and 'failed' or 'completed')
  end
  local part = parent.kind == 'chain' and 'step' or 'job'
  emit_event(workflow, part .. (succeeded and '_completed' or '_failed'), ',"' .. part .. '_index":' .. node.slot .. ',"state":"' .. state .. '"'
    .. (node.id and ',"job_id":"' .. node.id .. '"' or ''))
  if succeeded then parent.ok = parent.ok + 1 else parent.failed = parent.failed + 1 end
  if parent.kind == 'chain' then
    if not succeeded then return node_end(workflow, node.parent, 'failed') end
    if parent.ok == parent.count then return node_end(workflow, node.parent, 'completed') end
    return start_all(workflow, open_node(workflow, number + 1, {}))
  end
  if parent.ok + parent.failed < parent.count then return end
  if parent.kind == 'group' then return node_end(workflow, node.parent, parent.failed == 0 and 'completed' or 'failed') end
  if not start_callbacks(workflow, parent) then node_end(workflow, node.parent, 'completed') end
end

local function keep_result(workflow, number, job)
  local result = marked(job, 'r') and call('GET', ctx.prefix .. 'res:' .. job.id)
  if not result then return end
  if workflow.bytes + #result > MOST_BYTES then result = '{"$ref":"/ojs/v1/jobs/' .. job.id .. '"}' end
  workflow.bytes = workflow.bytes + #result
  call('HSET', workflow.key .. ':results', number, result)
end

local function job_ended(job, state, keep_ms)
  local workflow, number = workflow_open(job.workflow), tonumber(job.node)
  -- A dead letter may be retried after its workflow was deleted, so it keeps its input.
  if keep_ms and job.inputs then
    local inputs = workflow and marked(job, 'd') and job_inputs(job)
    if inputs then call('SET', ctx.prefix .. 'par:' .. job.id, inputs, 'PX', keep_ms) else call('PEXPIRE', ctx.prefix .. 'par:' .. job.id, keep_ms) end
  end
  local node = workflow and workflow_node(workflow, number)
  -- The node of a retried dead letter has ended before.
  if not node or node.state ~= 'open' then return end
  local outcome = state == 'discarded' and 'failed' or state
  node.started = job.started
  local is_over = workflow.state ~= 'running'
  if outcome == 'completed' then
    workflow.ok = workflow.ok + 1
  elseif outcome == 'failed' or not is_over then
    workflow.failed = workflow.failed + 1
  end
  if is_over then
    node.state, node.finished = outcome, ctx.now_text
    return touch(workflow, number)
  end
  if outcome == 'completed' then keep_result(workflow, number, job) end
  node_end(workflow, number, outcome)
end

local function on_job_ended(job, state, keep_ms)
  ended[#ended + 1] = {job, state, keep_ms}
end

-- Carries out one deferred step.
local function run_step(entry)
  local what, id, number, job_id, state = match(entry, '^(%l+) (%S+) (%d+) ?(%S*) ?(%S*)$')
  local workflow = workflow_open(id)
  if not workflow then return end
  if what == 'cancel' then
    local node = workflow_node(workflow, tonumber(number))
    local job = node.state == 'open' and job_load(node.id)
    if job then cancel_job(job) end
  elseif what == 'ended' then
    ended[#ended + 1] = {{id = job_id, workflow = id, node = number, started = '', marks = ''}, state}
  elseif workflow.state == 'running' and workflow_node(workflow, tonumber(number)).state == 'waiting' then
    start_all(workflow, {tonumber(number)})
  end
end

workflows.run_deferred = function(limit)
  local entries = call('LPOP', ctx.prefix .. 'workflows:todo', limit) or {}
  for _, entry in ipairs(entries) do
    if guarded(run_step, entry) then emit('store.error', subject(''), '"set":"workflows:todo"') end
  end
  return #entries
end

-- The first phase, because jobs stored here are written by the later phases.
on_commit('workflows', function()
  for _, entry in ipairs(ended) do
    if guarded(job_ended, unpack(entry)) then
      emit('store.error', subject(entry[1].workflow), '"set":"workflow"')
    end
  end
  apply_deferred()
  write_all()
end)

on_begin(function()
  finish.advance_workflow = on_job_ended
end)

return {workflows = workflows}
