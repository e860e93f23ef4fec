-- Checks a worker's answer for a job that it holds.

local job_module = require('queue/job')

local job_load, job_view = job_module.load, job_module.view

-- Returns the job if the worker may answer for it. Otherwise returns nil and the result to reply:
-- an error, or the job itself if the same answer (`op`) was already accepted.
local function job_to_answer(id, worker, op, scope, text)
  local job = job_load(id, scope, text)
  if not job then return nil, {'missing'} end
  if job.op == op then return nil, job_view(job) end
  if job.state ~= 'active' then return nil, {'conflict', job.state, ''} end
  -- A worker that fetched for a tenant has the tenant in its name (`%1C` is the separator). An
  -- answer that is not bound to a tenant names the worker without it.
  if worker ~= '' and job.worker ~= '' and job.worker ~= worker and string.sub(job.worker, -#worker - 3) ~= '%1C' .. worker then
    return nil, {'conflict', job.state, job.worker}
  end
  job.op = op
  return job
end

return {job_to_answer = job_to_answer}
