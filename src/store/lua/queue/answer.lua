-- A worker's answer for a job that it holds.

local job_module = require('queue/job')

local job_load, job_view = job_module.load, job_module.view

-- The job, if the worker may answer for it now; else nil and the result that says why not, or the first answer again.
local function job_to_answer(id, worker, op, scope, text)
  local job = job_load(id, scope, text)
  if not job then return nil, {'missing'} end
  if job.op == op then return nil, job_view(job) end
  if job.state ~= 'active' then return nil, {'conflict', job.state, ''} end
  -- Who speaks for no tenant is known by the name that it gave when it fetched for one.
  if worker ~= '' and job.worker ~= '' and job.worker ~= worker and string.sub(job.worker, -#worker - 3) ~= '%1C' .. worker then
    return nil, {'conflict', job.state, job.worker}
  end
  job.op = op
  return job
end

return {job_to_answer = job_to_answer}
