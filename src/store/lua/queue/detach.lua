-- Removes a job that has not ended from its lease, lane or staging queue.

local job_module = require('queue/job')
local stage = require('staging/stage')
local finish = require('queue/finish')
local remove = require('queue/remove')
local runtime = require('lib/runtime')

local emit, gather = runtime.emit, runtime.gather
local lease_release, marked = job_module.lease_release, job_module.marked
local job_unstage = stage.job_unstage
local job_finish = finish.job_finish
local lane_remove = remove.lane_remove

local function job_detach(job)
  if job.state == 'active' then return lease_release(job) end
  if job.state == 'available' then lane_remove(job) end
  if marked(job, 's') then job_unstage(job) end
  gather('ZREM', job_module.DUE, job.id)
end

-- Cancels a job that has not ended. `more` holds further members of the event's data.
local function job_cancel(job, more)
  local previous = job.state
  job_detach(job)
  job_finish(job, 'cancelled')
  emit('job.cancelled', job, '"state":"cancelled","previous_state":"' .. previous .. '"' .. (more or ''))
end

return {job_cancel = job_cancel, job_detach = job_detach}
