-- Stages the jobs of an inbox of a main queue, all of them and exactly once.
--
-- inboxes  hash  inbox → sequence up to which its entries were imported
--
-- ARGV[9…]
--   inbox    inbox
--   before   sequence of the inbox when its entries were read
--   after    its sequence after this call
--   version  version of the plan rules
--   main     main queue
--   release  token of the release that imports the jobs to hand them back, or ''
--   jobs     number of jobs
--   …        each job, as `queue/enqueue` describes it
--
-- Returns  the answer of `queue/enqueue` to one request; `taken` if another process imported the
--          entries; `released` if the token is not that of the current release of the main queue

local ctx = require('lib/context')
local enqueue_module = require('queue/enqueue')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, guarded = runtime.commit, runtime.guarded
local enqueue, register_queues = enqueue_module.enqueue, enqueue_module.register_queues
local call = redis.call

-- First argument of the jobs.
local FIRST = 16

local function run()
  local inbox, before, after, version, main, release, jobs = unpack(ctx.args, 9, 15)
  jobs = tonumber(jobs)
  if (call('HGET', ctx.prefix .. 'release:' .. main, 'token') or '') ~= release then return 'released' end
  if (call('HGET', ctx.prefix .. 'inboxes', inbox) or '0') ~= before then return 'taken' end
  -- Jobs that are handed back in a moment do not count against the rule's bound.
  local import = {exceeds_bound = release ~= ''}
  local result = jobs == 0 and 'ok' or guarded(enqueue, '', FIRST, jobs, false, version, import)
  if type(result) == 'table' then result = wire.join_list(result) end
  if string.sub(result, 1, 2) ~= 'ok' then return result end
  call('HSET', ctx.prefix .. 'inboxes', inbox, after)
  register_queues()
  commit()
  return result
end

return run
