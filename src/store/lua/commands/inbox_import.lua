-- Stages the jobs of an inbox of a main queue, all of them and exactly once.
--
-- inboxes  hash  inbox → sequence up to which its entries were imported
--
-- Takes
--   inbox    string   inbox
--   before   number   sequence of the inbox when its entries were read
--   after    number   its sequence after this call
--   version  string   version of the plan rules
--   main     string   main queue
--   release  string?  token of the release that imports the jobs to hand them back
--   jobs     number   number of jobs
-- and behind it each job, as `queue/enqueue` describes it
--
-- Returns  {answer: string} of `queue/enqueue` to one request, `stored` if there were no jobs,
--          `taken` if another process imported the entries, or `released` if the token is not that
--          of the current release of the main queue

local ctx = require('lib/context')
local enqueue_module = require('queue/enqueue')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, guarded, int = runtime.commit, runtime.guarded, runtime.int
local enqueue, register_queues = enqueue_module.enqueue, enqueue_module.register_queues
local write = packed.write
local call = redis.call

-- Stores the jobs. Returns the answer, or nil if there are none.
local function import(args)
  if args.jobs == 0 then return nil end
  -- Jobs that are handed back in a moment do not count against the rule's bound.
  local terms = {exceeds_bound = args.release ~= nil}
  local result = guarded(enqueue, '', packed.FIRST_WORD, args.jobs, false, args.version, terms)
  return type(result) == 'table' and wire.join_list(result) or result
end

local function run()
  local args = packed.read()
  if (call('HGET', ctx.prefix .. 'release:' .. args.main, 'token') or nil) ~= args.release then return write('released') end
  if tonumber(call('HGET', ctx.prefix .. 'inboxes', args.inbox) or 0) ~= args.before then return write('taken') end
  local answer = import(args)
  if answer and string.sub(answer, 1, 2) ~= 'ok' then return write({answer = answer}) end
  call('HSET', ctx.prefix .. 'inboxes', args.inbox, int(args.after))
  register_queues()
  commit()
  return write(answer and {answer = answer} or 'stored')
end

return run
