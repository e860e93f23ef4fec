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

local MOST_HANDED_BACK = 200

local function run()
  local worker_id, is_resend = unpack(ctx.args, 9, 10)
  local handed_back, known = take_from(worker_id, MOST_HANDED_BACK, 'shutdown', lease_hand_back)
  commit()
  return {is_resend == '1' and 1 or known, handed_back, handed_back == MOST_HANDED_BACK and 1 or 0}
end

return run
