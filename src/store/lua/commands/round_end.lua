-- Ends a round: records it, and stores the depths below which the planner wants a signal.
--
-- plan:R:rounds  stream  one entry per round: n: its number, d: document that only Rust reads
--
-- ARGV[9…]
--   rule      rule
--   token     token of the planner lock, or '' if the round had none
--   round     number of the round
--   document  record of the round
--   promoted  number of promoted jobs
--   skipped   1 if the round was skipped
--   most      rounds to keep
--   …         for each queue: name, low-water mark, depth that the planner aims at, ms for which it
--             applies
--
-- Returns  1, or 0 if the lock is lost: then the round is only recorded. For a rule that is gone it
--          is not recorded either

local ctx = require('lib/context')
local plan = require('staging/plan')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local commit, int, signal = runtime.commit, runtime.int, runtime.signal
local IDLE_MS = plan.IDLE_MS
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

local function run()
  local rule, token, round, document, promoted, skipped, most = unpack(ctx.args, 9, 15)
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = key .. ':lock'
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  local recorded = call('HGET', key, 'recorded')
  if recorded == round then return 1 end -- a resend
  if (tonumber(recorded or nil) or 0) < tonumber(round) then call('HSET', key, 'recorded', round) end
  call('XADD', key .. ':rounds', 'MAXLEN', '~', most, '*', 'n', round, 'd', document)
  call('HINCRBY', key, 'promoted', promoted)
  if skipped == '1' then call('HINCRBY', key, 'skipped', 1) end
  signal('round ' .. rule)
  local ours = call('HGET', lock, 'token') == token
  if ours then
    for at = 16, #ctx.args, 4 do
      local queue, low, aim, holds_ms = unpack(ctx.args, at, at + 3)
      local fair = staging_open(rule, queue)
      call('HSET', fair.key, 'aim', aim, 'aimed', int(ctx.now + tonumber(holds_ms)))
      if fair.jobs == 0 then call('PEXPIRE', fair.key, IDLE_MS) end
      -- A planner that wants no signal leaves the mark to other rules of that queue.
      local waiting, unknown = staging.waiting(fair)
      if low ~= '0' and waiting + unknown > 0 then
        call('HSET', ctx.prefix .. 'low', 'm ' .. queue, low)
      end
    end
    -- Idle rules hold no lock, so that any process can plan them when jobs arrive.
    if call('EXISTS', key .. ':queues') == 0 then call('UNLINK', lock) else call('HSET', lock, 'busy', '0') end
  end
  commit()
  return ours and 1 or 0
end

return run
