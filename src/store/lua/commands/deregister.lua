-- A worker says goodbye: its record goes, and what it still holds is available again at once.
--
-- ARGV[9…] worker, 1 if this call is sent again, so that a worker that is gone was known
-- Returns  {1 if it was known, number of jobs handed back, 1 if more remain}

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
