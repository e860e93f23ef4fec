-- Hands back jobs that never reached their worker. A job that was answered or leased again since is
-- left unchanged.
--
-- Takes
--   jobs  list of {id: string, attempt: number, started: number}  start time and attempt of the lease
--
-- Returns  number of jobs handed back

local packed = require('lib/packed')
local job_module = require('queue/job')
local hand_back_module = require('queue/hand_back')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load = job_module.load
local hand_back = hand_back_module.hand_back

local function run()
  local released = 0
  for _, lease in ipairs(packed.read().jobs) do
    local job = job_load(lease.id)
    if job and job.state == 'active' and job.attempt == lease.attempt and tonumber(job.started) == lease.started then
      hand_back(job)
      released = released + 1
    end
  end
  commit()
  return packed.write(released)
end

return run
