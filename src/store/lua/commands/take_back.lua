-- Takes back jobs that another system does not want: they end here, with what it said about them.
--
-- ARGV[9…] for each job: id, members of the history entry, the error as JSON, 1 if it is a dead letter
-- Returns  the ids of those that are gone meanwhile

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local job_module = require('queue/job')
local failure = require('queue/failure')
local runtime = require('lib/runtime')

local commit, count = runtime.commit, runtime.count
local tally = job_counts.tally
local job_load, job_set, marked, unmark = job_module.load, job_module.set, job_module.marked, job_module.unmark
local discard, record_failure = failure.discard, failure.record_failure
local call = redis.call

local function run()
  local gone = {}
  for at = 9, #ctx.args, 4 do
    local job = job_load(ctx.args[at])
    if not job then
      gone[#gone + 1] = ctx.args[at]
    elseif marked(job, 'h') then -- otherwise a call before this one has taken it back
      unmark(job, 'h')
      job_set(job, 'left')
      call('ZREM', ctx.prefix .. 'finished:forwarded', job.id)
      -- Nobody has counted it since it left.
      count(job.queue, job.state, 1)
      tally(job.tenant, job.state, 1)
      record_failure(job, ctx.args[at + 1])
      discard(job, ctx.args[at + 3] == '1', ctx.args[at + 2])
    end
  end
  commit()
  return gone
end

return run
