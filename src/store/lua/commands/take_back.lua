-- Takes back forwarded jobs that the other system rejected, and discards them with its error.
--
-- ARGV[9…]
--   …  for each job: id, entry of the failure history (JSON members), error as JSON, 1 if it is a
--      dead letter
--
-- Returns  ids of jobs that no longer exist

local ctx = require('lib/context')
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
  for at = 9, #ctx.args, 4 do
    local id, entry, error, is_dead = unpack(ctx.args, at, at + 3)
    local job = job_load(id)
    if not job then
      gone[#gone + 1] = id
    elseif marked(job, 'h') then -- otherwise an earlier call has taken it back
      unmark(job, 'h')
      job_set(job, 'left')
      call('ZREM', ctx.prefix .. 'finished:forwarded', job.id)
      -- Forwarded jobs are not counted.
      count(job.queue, job.state, 1)
      count_tenant(job.tenant, job.state, 1)
      record_failure(job, entry)
      discard(job, is_dead == '1', error)
    end
  end
  commit()
  return gone
end

return run
