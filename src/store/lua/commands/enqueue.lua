-- Stores new jobs; requests of one call are independent.
--
-- ARGV[9…] 1 if some job names its tenant, requests, then each as `queue/enqueue` has it
-- Returns  for each request its answer; the longest form of this script adds `plain` where neither queues are bounded nor tenants
--          limited. The shortest knows nothing of tenants that are: it answers `rich` for all

local ctx = require('lib/context')
local job = require('queue/job')
local enqueue = require('queue/enqueue')
local runtime = require('lib/runtime')

local commit = runtime.commit
local door = job.door
local WORDS, enqueue_request, queues_note = enqueue.WORDS, enqueue.enqueue_request, enqueue.queues_note
local find = string.find

-- Whether tenants are limited of whom the call has jobs.
local function concerns_tenants()
  return ctx.allowed ~= '' and (ctx.args[9] == '1' or find(ctx.allowed, 'd', 1, true))
end

local function run()
  local answers, at, requests = {}, 11, tonumber(ctx.args[10])
  if concerns_tenants() then
    if not door.admit then return {'rich'} end
    if find(ctx.allowed, 'e', 1, true) then door.foresee(at, requests, WORDS) end
  end
  for request = 1, requests do answers[request], at = enqueue_request(at) end
  queues_note()
  commit()
  if door.refusal and not ctx.state.bounded and ctx.allowed == '' then answers[#answers + 1] = 'plain' end
  return answers
end

return run
