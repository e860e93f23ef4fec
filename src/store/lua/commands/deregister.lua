-- Removes a worker and makes the jobs that it still holds available at once.
--
-- Takes
--   worker  string  worker
--
-- Returns
--   known        boolean  true if the worker was known, or if this call is a resend
--   handed_back  number   jobs
--   more         boolean  true if it still holds jobs

local packed = require('lib/packed')
local job = require('queue/job')
local worker = require('dispatch/worker')
local runtime = require('lib/runtime')

local commit = runtime.commit
local lease_hand_back = job.lease_hand_back
local take_from = worker.take_from

local MOST_HANDED_BACK = 200

local function run()
  local args = packed.read()
  local handed_back, known = take_from(args.worker, MOST_HANDED_BACK, 'shutdown', lease_hand_back)
  commit()
  return packed.write({known = args.is_resend or known == 1, handed_back = handed_back, more = handed_back == MOST_HANDED_BACK})
end

return run
