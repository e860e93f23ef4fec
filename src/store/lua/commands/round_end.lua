-- Ends a round: records it, and stores the depths below which the planner wants a signal.
--
-- plan:R:rounds  stream  one entry per round: n: its number, d: document that only Rust reads
--
-- Takes
--   rule      string   rule
--   token     string   token of the planner lock, or '' if the round had none
--   round     number   number of the round
--   document  string   record of the round
--   promoted  number   promoted jobs
--   skipped   boolean  true if the round was skipped
--   most      number   rounds to keep
--   marks     list of {queue: string, low: number, aim: number, holds_ms: number}  low-water mark,
--             depth that the planner aims at, and ms for which it applies
--
-- Returns  true, or false if the lock is lost: then the round is only recorded. For a rule that is
--          gone it is not recorded either

local ctx = require('lib/context')
local packed = require('lib/packed')
local plan = require('staging/plan')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local commit, int, signal = runtime.commit, runtime.int, runtime.signal
local IDLE_MS = plan.IDLE_MS
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

local function run()
  local args = packed.read()
  local rule, round = args.rule, args.round
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = key .. ':lock'
  if call('HEXISTS', key, 'state') == 0 then return packed.write(false) end
  local recorded = tonumber(call('HGET', key, 'recorded') or nil)
  if recorded == round then return packed.write(true) end -- a resend
  if (recorded or 0) < round then call('HSET', key, 'recorded', int(round)) end
  call('XADD', key .. ':rounds', 'MAXLEN', '~', args.most, '*', 'n', int(round), 'd', args.document)
  call('HINCRBY', key, 'promoted', int(args.promoted))
  if args.skipped then call('HINCRBY', key, 'skipped', 1) end
  signal('round ' .. rule)
  local ours = call('HGET', lock, 'token') == args.token
  if ours then
    for _, mark in ipairs(args.marks) do
      local fair = staging_open(rule, mark.queue)
      call('HSET', fair.key, 'aim', mark.aim, 'aimed', int(ctx.now + mark.holds_ms))
      if fair.jobs == 0 then call('PEXPIRE', fair.key, IDLE_MS) end
      -- A planner that wants no signal leaves the mark to other rules of that queue.
      local waiting, unknown = staging.waiting(fair)
      if mark.low > 0 and waiting + unknown > 0 then
        call('HSET', ctx.prefix .. 'low_water', 'mark ' .. mark.queue, mark.low)
      end
    end
    -- Idle rules hold no lock, so that any process can plan them when jobs arrive.
    if call('EXISTS', key .. ':queues') == 0 then call('UNLINK', lock) else call('HSET', lock, 'busy', '0') end
  end
  commit()
  return packed.write(ours)
end

return run
