-- Removes a worker and makes the jobs that it still holds available at once.
--
-- ARGV[9…]
--   worker     worker
--   is_resend  1 if this call is a resend: a worker that is gone counts as known
--
-- Returns  {1 if the worker was known, number of jobs handed back, 1 if more remain}

local ctx = require('lib/context')
local job = require('queue/job')
local worker = require('dispatch/worker')
local runtime = require('lib/runtime')

local commit = runtime.commit
local lease_hand_back = job.lease_hand_back
local take_from = worker.take_from

local BOUND = 200

local function run()
  local handed_back, known = take_from(ctx.args[9], BOUND, 'shutdown', lease_hand_back)
  commit()
  return {ctx.args[10] == '1' and 1 or known, handed_back, handed_back == BOUND and 1 or 0}
end

return run
