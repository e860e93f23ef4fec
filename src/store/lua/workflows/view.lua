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

-- Returns a workflow without its parts, or nil if it does not exist or is not visible:
--   id         string
--   state      string
--   kind       string
--   name       string  JSON, or ''
--   meta       string  JSON, or ''
--   created    number
--   finished   number?
--   jobs       number
--   completed  number  jobs that succeeded
--   failed     number
--   tenant     string  or ''
--   steps      string  or ''
local function summary(id, scope)
  local key = ctx.prefix .. 'workflow:' .. id
  local state, kind, name, meta, created, finished, jobs, completed, failed, tenant, steps =
    unpack(call('HMGET', key, 'state', 'kind', 'name', 'meta', 'created', 'finished', 'jobs', 'ok', 'failed', 'tenant', 'steps'))
  if not state or not workflow_is_in(tenant, scope) then return nil end
  return {id = id, state = state, kind = kind or '', name = name or '', meta = meta or '', created = tonumber(created),
    finished = tonumber(finished), jobs = tonumber(jobs or 0), completed = tonumber(completed or 0), failed = tonumber(failed or 0),
    tenant = tenant or '', steps = steps or ''}
end

-- Returns a workflow as `summary` does, with
--   nodes    list of string
--   results  list of {node: number, result: string}
--
-- The node of a job that has begun and not ended is followed by US state US started of the job; if
-- `with_progress`, also by US progress US data as its worker reported them.
local function workflow_view(id, scope, with_progress)
  local view = summary(id, scope)
  if not view then return nil end
  local key = ctx.prefix .. 'workflow:' .. id
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
  local results, stored = {}, call('HGETALL', key .. ':results')
  for place = 1, #stored, 2 do results[#results + 1] = {node = tonumber(stored[place]), result = stored[place + 1]} end
  view.nodes, view.results = nodes, results
  return view
end

return {summary = summary, workflow_view = workflow_view}
