-- Hands back jobs that never reached their worker. A job that was answered or leased again since is
-- left unchanged.
--
-- ARGV[9…]
--   jobs  number of jobs
--   …     for each job: id, attempt and start time of its lease
--
-- Returns  number of jobs handed back

local ctx = require('lib/context')
local job_module = require('queue/job')
local hand_back_module = require('queue/hand_back')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load = job_module.load
local hand_back = hand_back_module.hand_back

local function run()
  local released = 0
  for at = 10, 7 + tonumber(ctx.args[9]) * 3, 3 do
    local job = job_load(ctx.args[at])
    if job and job.state == 'active' and job.attempt == tonumber(ctx.args[at + 1]) and job.started == ctx.args[at + 2] then
      hand_back(job)
      released = released + 1
    end
  end
  commit()
  return released
end

return run
