-- Stores new jobs. The requests of a call are independent of each other.
--
-- ARGV[9…]
--   requests  number of requests
--   …         each request, as `queue/enqueue` describes it
--
-- Returns  the answer to each request

local ctx = require('lib/context')
local enqueue = require('queue/enqueue')
local enqueue_limits = require('limits/enqueue_limits')
local runtime = require('lib/runtime')

local commit = runtime.commit
local WORDS, enqueue_request, register_queues = enqueue.WORDS, enqueue.enqueue_request, enqueue.register_queues
local find = string.find

local FIRST = 10

local function run()
  local answers, at, requests = {}, FIRST, tonumber(ctx.args[9])
  if find(ctx.tenant_limits, 'e', 1, true) then enqueue_limits.open_accounts(at, requests, WORDS) end
  for request = 1, requests do answers[request], at = enqueue_request(at) end
  register_queues()
  commit()
  return answers
end

return run
