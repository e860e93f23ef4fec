-- Makes a pending job available. A staged job skips promotion; a job that its client created as
-- pending goes through staging if a plan rule covers it.
--
-- Takes
--   id      string  job
--   op      string  id of this operation; if it is repeated, the first result is returned
--   tenant  string  the only tenant visible to the caller, or '' for all
--
-- Returns  {done: {view: string, previous: string?}} with the job view and the previous state,
--          `missing` or {conflict: {state: string}}

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local stage = require('staging/stage')
local runtime = require('lib/runtime')

local commit, emit = runtime.commit, runtime.emit
local job_load, job_view, marked = job_module.load, job_module.view, job_module.marked
local job_admit, job_release, job_unstage = stage.job_admit, stage.job_release, stage.job_unstage
local write = packed.write

local function done(job)
  return write({done = {view = job_view(job), previous = 'pending'}})
end

local function run()
  local args = packed.read()
  local job = job_load(args.id, args.tenant)
  if not job then return write('missing') end
  if job.op == args.op then return done(job) end
  -- Only a round hands jobs to a main queue in another system.
  if job.state ~= 'pending' or (job.push and marked(job, 's')) then return write({conflict = {state = job.state}}) end
  job.activated, job.op = ctx.now_text, args.op
  if marked(job, 's') then
    job_unstage(job)
    job_release(job)
  elseif job_admit(job) then
    emit('job.enqueued', job, '"state":"available"')
  end
  commit()
  return done(job)
end

return run
