-- Ends a round: records it, and says when the planner wants to be woken.
--
-- plan:R:rounds  stream  one entry a round: its number and a document, which only Rust reads
--
-- ARGV[9…] rule, token of the lock or '' where the round had none, round, document, promoted, 1 if skipped, rounds to keep,
--          then for each queue: queue, low-water mark, aimed depth, ms for which that holds
-- Returns  1, or 0 if the lock is another's: then the round is recorded, and nothing else; of a rule that is gone not even that

local ctx = require('lib/context')
local plan = require('staging/plan')
local fair_queues = require('staging/fair_queues')
local runtime = require('lib/runtime')

local commit, int, signal = runtime.commit, runtime.int, runtime.signal
local IDLE_MS = plan.IDLE_MS
local staging, staging_open = fair_queues.staging, fair_queues.open
local call = redis.call

local function run()
  local rule, token = ctx.args[9], ctx.args[10]
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = key .. ':lock'
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  local recorded = call('HGET', key, 'recorded')
  if recorded == ctx.args[11] then return 1 end -- sent again
  if (tonumber(recorded or nil) or 0) < tonumber(ctx.args[11]) then call('HSET', key, 'recorded', ctx.args[11]) end
  call('XADD', key .. ':rounds', 'MAXLEN', '~', ctx.args[15], '*', 'n', ctx.args[11], 'd', ctx.args[12])
  call('HINCRBY', key, 'promoted', ctx.args[13])
  if ctx.args[14] == '1' then call('HINCRBY', key, 'skipped', 1) end
  signal('round ' .. rule)
  local ours = call('HGET', lock, 'token') == token
  if ours then
    for at = 16, #ctx.args, 4 do
      local queue = ctx.args[at]
      local fair = staging_open(rule, queue)
      call('HSET', fair.key, 'aim', ctx.args[at + 2], 'aimed', int(ctx.now + tonumber(ctx.args[at + 3])))
      if fair.jobs == 0 then call('PEXPIRE', fair.key, IDLE_MS) end
      -- One that does not want to be woken leaves the mark to other rules of that queue.
      local waiting, unknown = staging.waiting(fair)
      if ctx.args[at + 1] ~= '0' and waiting + unknown > 0 then
        call('HSET', ctx.prefix .. 'low', 'm ' .. queue, ctx.args[at + 1])
      end
    end
    -- Idle rules hold no lock, so that another process finds it free when jobs come there.
    if call('EXISTS', key .. ':queues') == 0 then call('UNLINK', lock) else call('HSET', lock, 'busy', '0') end
  end
  commit()
  return ours and 1 or 0
end

return run
