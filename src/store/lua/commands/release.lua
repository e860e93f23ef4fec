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
    local id, attempt, started = unpack(ctx.args, at, at + 2)
    local job = job_load(id)
    if job and job.state == 'active' and job.attempt == tonumber(attempt) and job.started == started then
      hand_back(job)
      released = released + 1
    end
  end
  commit()
  return released
end

return run
