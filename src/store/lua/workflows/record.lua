-- Workflows in memory: reads those that a call needs, and writes what changed at its end.
--
-- `workflows/workflow` describes the keys and the fields of nodes.
--
-- Fields of a workflow:
--   id, key   its id, and the key `workflow:ID`
--   finished  set if it ended in this call
--   nodes     number → node, as far as read
--   touched   number → true for nodes that have changed
--   …         state, kind, name, created, tenant, ok, failed, bytes and op, as stored

local ctx = require('lib/context')
local finish = require('queue/finish')
local node_codec = require('workflows/node')
local runtime = require('lib/runtime')

local on_begin, emit, flush, gather, int = runtime.on_begin, runtime.emit, runtime.flush, runtime.gather, runtime.int
local SHORTEST = finish.SHORTEST
local call = redis.call

local opened -- by id; false for workflows that do not exist

on_begin(function()
  opened = {}
end)

-- Creates a workflow in memory. The caller adds its nodes.
local function workflow_new(id, kind, name, created, tenant)
  local workflow = {id = id, key = ctx.prefix .. 'workflow:' .. id, state = 'running', kind = kind, name = name, created = created,
    tenant = tenant ~= '' and tenant or nil,
    ok = 0, failed = 0, bytes = 0, nodes = {}, touched = {}}
  opened[id] = workflow
  return workflow
end

-- Returns the workflow, or false if it does not exist.
local function workflow_open(id)
  if opened[id] == nil then
    local f = call('HMGET', ctx.prefix .. 'workflow:' .. id, 'state', 'kind', 'name', 'created', 'ok', 'failed', 'bytes', 'op', 'tenant')
    opened[id] = false
    if f[1] then
      local workflow = workflow_new(id, f[2], f[3], f[4], f[9] or '')
      workflow.state, workflow.ok, workflow.failed = f[1], tonumber(f[5]), tonumber(f[6])
      workflow.bytes, workflow.op = tonumber(f[7]), f[8]
    end
  end
  return opened[id]
end

local function workflow_node(workflow, number)
  local node = workflow.nodes[number]
  if not node then
    node = node_codec.read(call('HGET', workflow.key .. ':nodes', number))
    workflow.nodes[number] = node
  end
  return node
end

-- Marks a node as changed.
local function touch(workflow, number)
  workflow.touched[number] = true
end

-- Emits an event about a workflow; `more` are further members of its data.
local function emit_event(workflow, kind, more)
  local name = workflow.name ~= '' and ',"workflow_name":' .. workflow.name or ''
  emit('workflow.' .. kind, {id = workflow.id, type = '', queue = '', tenant = workflow.tenant}, '"workflow_type":"' .. workflow.kind .. '"' .. name .. (more or ''))
end

-- Ends a workflow.
local function workflow_finish(workflow, state)
  workflow.state, workflow.finished = state, ctx.now_text
  emit_event(workflow, state, ',"state":"' .. state .. '","completed_count":' .. int(workflow.ok) .. ',"failed_count":' .. int(workflow.failed)
    .. ',"duration_ms":' .. int(ctx.now - tonumber(workflow.created)))
end

local KEPT_AS = {completed = 'completed', cancelled = 'cancelled', failed = 'discarded'}

local function write(workflow)
  local key = workflow.key
  if not next(workflow.touched) and not workflow.finished then return end
  for number in pairs(workflow.touched) do
    gather('HSET', key .. ':nodes', int(number), node_codec.write(workflow.nodes[number]))
  end
  call('HSET', key, 'state', workflow.state, 'ok', int(workflow.ok), 'failed', int(workflow.failed), 'bytes', int(workflow.bytes))
  if workflow.finished then
    flush()
    call('HSET', key, 'finished', workflow.finished, 'op', workflow.op or '')
    local keep_ms = math.max(finish.retention(KEPT_AS[workflow.state]), SHORTEST)
    call('UNLINK', key .. ':jobs')
    for _, part in ipairs({'', ':nodes', ':results'}) do call('PEXPIRE', key .. part, keep_ms) end
    call('ZADD', ctx.prefix .. 'workflows', ctx.now_text, workflow.id)
  end
end

-- Writes the workflows that have changed. `workflows/workflow` calls it at the end of a call.
local function write_all()
  for _, workflow in pairs(opened) do
    if workflow then write(workflow) end
  end
end

return {
  emit_event = emit_event,
  finish = workflow_finish,
  new = workflow_new,
  node = workflow_node,
  open = workflow_open,
  touch = touch,
  write_all = write_all,
}
