-- Cancels a workflow that has not ended, with all of its jobs that are not active.
--
-- ARGV[9…] id, op, the one tenant whose are there or ''
-- Returns  {'ok', view}, {'missing'} or {'conflict', state}

-- What is active may finish, but not wait again: see `call_off` in `sweep.lua`.
local function job_call_off(job)
  if job.finished ~= '' then return end
  if job.state == 'active' then
    mark(job, 'c')
    job_set(job, 'expires', now_text)
    return job_save(job)
  end
  local previous = job.state
  job_detach(job)
  job_finish(job, 'cancelled')
  emit('job.cancelled', job, '"state":"cancelled","previous_state":"' .. previous .. '"')
end

run = function()
  local workflow = workflow_open(ARGV[9])
  if not workflow or not workflow_is_in(workflow.tenant, ARGV[11]) then return {'missing'} end
  if workflow.op == ARGV[10] then return {'ok', workflow_view(workflow.id, ARGV[11])} end
  if workflow.state ~= 'running' then return {'conflict', workflow.state} end
  workflow.op = ARGV[10]
  workflow_finish(workflow, 'cancelled')
  for number = 0, tonumber(call('HGET', workflow.key, 'nodes')) - 1 do
    local node = workflow_node(workflow, number)
    local job = node.kind == 'job' and node.state == 'open' and job_load(node.id)
    if job then job_call_off(job) end
  end
  commit()
  return {'ok', workflow_view(workflow.id, ARGV[11])}
end
