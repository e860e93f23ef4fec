-- Encodes and decodes nodes of workflows: jobs, and chains, groups and batches of nodes.
-- `workflows/workflow` describes the fields.

local int = require('lib/number').int
local wire = require('lib/wire')

local join = wire.join
local match = string.match

local JOB, PARENT = wire.pattern(8), wire.pattern(11)

local function read(text)
  if match(text, '^%l+') == 'job' then
    local _, parent, slot, state, id, type, started, finished = match(text, JOB)
    return {kind = 'job', parent = tonumber(parent), slot = slot, state = state, id = id, type = type, started = started,
      finished = finished}
  end
  local kind, parent, slot, state, first, count, callbacks, ok, failed, fired, finished = match(text, PARENT)
  return {kind = kind, parent = tonumber(parent), slot = slot, state = state, first = tonumber(first), count = tonumber(count),
    callbacks = tonumber(callbacks), ok = tonumber(ok), failed = tonumber(failed), fired = tonumber(fired), finished = finished}
end

local function write(node)
  local parent = node.parent and int(node.parent) or ''
  if node.kind == 'job' then return join('job', parent, node.slot, node.state, node.id, node.type, node.started, node.finished) end
  return join(node.kind, parent, node.slot, node.state, int(node.first), int(node.count), int(node.callbacks), int(node.ok),
    int(node.failed), int(node.fired), node.finished)
end

return {read = read, write = write}
