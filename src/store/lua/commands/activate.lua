-- Makes a pending job available. A staged job skips promotion; a job that its client created as
-- pending goes through staging if a plan rule covers it.
--
-- ARGV[9…]
--   id      job
--   op      id of this operation; if it is repeated, the first result is returned
--   tenant  the only tenant visible to the caller, or '' for all
--
-- Returns  {'ok', job view, previous state}, {'missing'} or {'conflict', state, ''}

local ctx = require('lib/context')
local job_module = require('queue/job')
local stage = require('staging/stage')
local runtime = require('lib/runtime')

local commit, emit = runtime.commit, runtime.emit
local job_load, job_view, marked = job_module.load, job_module.view, job_module.marked
local job_admit, job_release, job_unstage = stage.job_admit, stage.job_release, stage.job_unstage

local function run()
  local id, op, tenant = unpack(ctx.args, 9, 11)
  local job = job_load(id, tenant)
  if not job then return {'missing'} end
  if job.op == op then return {'ok', job_view(job), 'pending'} end
  -- Only a round hands jobs to a main queue in another system.
  if job.state ~= 'pending' or (job.push and marked(job, 's')) then return {'conflict', job.state, ''} end
  job.activated, job.op = ctx.now_text, op
  if marked(job, 's') then
    job_unstage(job)
    job_release(job)
  elseif job_admit(job) then
    emit('job.enqueued', job, '"state":"available"')
  end
  commit()
  return {'ok', job_view(job), 'pending'}
end

return run
