-- Cancels a job that has not ended.
--
-- ARGV[9…] id, op, the one tenant whose jobs are there or '', 1 unless a worker has it
-- Returns  {'ok', job view, previous state} or {'missing'} or {'conflict', state, ''}

-- Modules that only take part.
require('workflows/workflow')

local ctx = require('lib/context')
local job_module = require('queue/job')
local detach = require('queue/detach')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load, job_view = job_module.load, job_module.view
local job_cancel = detach.job_cancel

local function run()
  local job = job_load(ctx.args[9], ctx.args[11])
  if not job then return {'missing'} end
  if job.op == ctx.args[10] then return {'ok', job_view(job), ''} end
  if job.finished ~= '' or ctx.args[12] == '1' and job.state == 'active' then return {'conflict', job.state, ''} end
  local previous = job.state
  job.op = ctx.args[10]
  job_cancel(job)
  commit()
  return {'ok', job_view(job), previous}
end

return run
