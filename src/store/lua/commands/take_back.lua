-- Takes back forwarded jobs that the other system rejected, and discards them with its error.
--
-- Takes
--   jobs  list of {id: string, entry: string, error: string, is_dead: boolean}  entry of the failure
--         history (JSON members), error as JSON, and whether it becomes a dead letter
--
-- Returns  list of string  ids of jobs that no longer exist

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_counts = require('tenants/job_counts')
local job_module = require('queue/job')
local failure = require('queue/failure')
local runtime = require('lib/runtime')

local commit, count = runtime.commit, runtime.count
local count_tenant = job_counts.count_tenant
local job_load, job_set, marked, unmark = job_module.load, job_module.set, job_module.marked, job_module.unmark
local discard, record_failure = failure.discard, failure.record_failure
local call = redis.call

local function run()
  local gone = {}
  for _, returned in ipairs(packed.read().jobs) do
    local job = job_load(returned.id)
    if not job then
      gone[#gone + 1] = returned.id
    elseif marked(job, 'h') then -- otherwise an earlier call has taken it back
      unmark(job, 'h')
      job_set(job, 'left')
      call('ZREM', ctx.prefix .. 'finished:forwarded', job.id)
      -- Forwarded jobs are not counted.
      count(job.queue, job.state, 1)
      count_tenant(job.tenant, job.state, 1)
      record_failure(job, returned.entry)
      discard(job, returned.is_dead, returned.error)
    end
  end
  commit()
  return packed.write(gone)
end

return run
