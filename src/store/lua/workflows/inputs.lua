-- The input of a workflow's job: results of the steps before it.

local ctx = require('lib/context')
local read = require('workflows/node').read

local call = redis.call
local concat = table.concat

-- Appends the outputs of `count` nodes from `first` on. The output of a job is its result, that of
-- a chain is its last step's, that of a group or batch is an array.
local function outputs(key, first, count, list)
  if count == 0 then return list end
  local numbers = {}
  for index = 1, count do numbers[index] = first + index - 1 end
  local nodes, results = call('HMGET', key .. ':nodes', unpack(numbers)), call('HMGET', key .. ':results', unpack(numbers))
  for index = 1, count do
    local node = read(nodes[index])
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

-- Appends the inputs of a node: outputs of the steps before it in its chain, and before that chain;
-- for a callback, of the jobs of its batch.
local function inputs(key, number, list)
  local node = read(call('HGET', key .. ':nodes', number))
  if not node.parent then return list end
  local parent = read(call('HGET', key .. ':nodes', node.parent))
  if number >= parent.first + parent.count then return outputs(key, parent.first, parent.count, list) end
  inputs(key, node.parent, list)
  if parent.kind == 'chain' then outputs(key, parent.first, number - parent.first, list) end
  return list
end

-- Returns the input of a job as a JSON array, or '' once it is deleted.
local function job_inputs(job)
  local key = ctx.prefix .. 'workflow:' .. job.workflow
  if call('EXISTS', key) == 0 then return call('GET', ctx.prefix .. 'par:' .. job.id) or '' end
  return '[' .. concat(inputs(key, tonumber(job.node), {}), ',') .. ']'
end

return {of_job = job_inputs}
