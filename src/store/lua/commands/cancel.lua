-- Cancels a job that has not ended.
--
-- Takes
--   id             string   job
--   op             string   id of this operation; if it is repeated, the first result is returned
--   tenant         string   the only tenant visible to the caller, or '' for all
--   spares_active  boolean  true to refuse if the job is active
--
-- Returns  {done: {view: string, previous: string?}} with the job view and the previous state,
--          `missing` or {conflict: {state: string}}

-- Required for its commit phase: advances the workflow of the job.
require('workflows/workflow')

local packed = require('lib/packed')
local job_module = require('queue/job')
local detach = require('queue/detach')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load, job_view = job_module.load, job_module.view
local job_cancel = detach.job_cancel
local write = packed.write

local function run()
  local args = packed.read()
  local job = job_load(args.id, args.tenant)
  if not job then return write('missing') end
  if job.op == args.op then return write({done = {view = job_view(job)}}) end
  if job.finished ~= '' or args.spares_active and job.state == 'active' then return write({conflict = {state = job.state}}) end
  local previous = job.state
  job.op = args.op
  job_cancel(job)
  commit()
  return write({done = {view = job_view(job), previous = previous}})
end

return run
