-- The representation of a workflow for Rust.

local ctx = require('lib/context')

local call = redis.call
local head, join = require('lib/record').head, require('lib/wire').join
local node_read = require('workflows/node').read

-- Returns true if a workflow of `tenant` is visible to a caller limited to tenant `scope`; '' sees
-- all.
local function workflow_is_in(tenant, scope)
  return scope == '' or scope == (tenant and tenant ~= '' and tenant or '_default')
end

-- Returns {{state, kind, name, meta, created, finished, jobs, jobs that succeeded, jobs that
-- failed, tenant, steps}, nodes, {number, result, …}}, or nil if the workflow does not exist or is
-- not visible.
--
-- The node of a job that has begun and not ended is followed by US state US started of the job; if
-- `with_progress`, also by US progress US data as its worker reported them.
local function workflow_view(id, scope, with_progress)
  local key = ctx.prefix .. 'workflow:' .. id
  local header = call('HMGET', key, 'state', 'kind', 'name', 'meta', 'created', 'finished', 'jobs', 'ok', 'failed', 'tenant', 'steps')
  if not header[1] or not workflow_is_in(header[10], scope) then return nil end
  for position = 1, #header do header[position] = header[position] or '' end
  local numbers = {}
  for number = 1, tonumber(call('HGET', key, 'nodes')) do numbers[number] = number - 1 end
  local nodes = call('HMGET', key .. ':nodes', unpack(numbers))
  for position, text in ipairs(nodes) do
    local node = node_read(text)
    if node.kind == 'job' and node.state == 'open' then
      local state, attempt, started = head(call('GETRANGE', ctx.prefix .. 'job:' .. node.id, 0, 127))
      nodes[position] = join(text, state or '', started or '')
      local progress = with_progress and call('HMGET', ctx.prefix .. 'prog:' .. node.id, 'a', 'p', 'd')
      if progress and progress[1] and (state ~= 'active' or progress[1] == attempt) then
        nodes[position] = join(nodes[position], progress[2] or '', progress[3] or '')
      end
    end
  end
  return {header, nodes, call('HGETALL', key .. ':results')}
end

return {workflow_is_in = workflow_is_in, workflow_view = workflow_view}
