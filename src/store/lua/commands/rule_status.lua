-- Returns the state of a plan rule. Read-only.
--
-- Takes
--   rule   string   rule
--   queue  string?  a main queue to include even if nothing is staged for it
--
-- Returns
--   now            number
--   paused         boolean
--   staged         number  jobs
--   rounds         number
--   promoted       number  jobs
--   skipped        number  rounds
--   due            number  time of the next scheduled round, or 0
--   staged_at      number  time since when jobs are staged, or 0
--   is_unfinished  boolean  true if the last round has not ended
--   wasted_ms      number
--   lock           {holder: string, token: number, left_ms: number, is_busy: boolean}?  busy while a
--                  round runs
--   queues         list of results of `staging/observe`

local ctx = require('lib/context')
local packed = require('lib/packed')
local plan = require('staging/plan')
local observe_module = require('staging/observe')

local plan_queues = plan.queues
local observe = observe_module.observe
local call = redis.call
local match = string.match

local function lock_of(key)
  local holder, token, busy = unpack(call('HMGET', key, 'holder', 'token', 'busy'))
  return holder and {holder = holder, token = tonumber(match(token or '', '^%d+')), left_ms = math.max(call('PTTL', key), 0),
    is_busy = busy == '1'} or nil
end

local function run()
  local args = packed.read()
  local key = ctx.prefix .. 'plan:' .. args.rule
  local paused, staged, rounds, recorded, promoted, skipped, due, staged_at, wasted =
    unpack(call('HMGET', key, 'paused', 'staged', 'rounds', 'recorded', 'promoted', 'skipped', 'due', 'staged_at', 'wasted'))
  local queues, seen = {}, {}
  for _, queue in ipairs(plan_queues(args.rule)) do
    queues[#queues + 1] = observe(args.rule, queue)
    seen[queue] = true
  end
  if args.queue and not seen[args.queue] then queues[#queues + 1] = observe(args.rule, args.queue) end
  return packed.write({now = ctx.now, paused = paused == '1', staged = math.max(tonumber(staged or 0), 0), rounds = tonumber(rounds or 0),
    promoted = tonumber(promoted or 0), skipped = tonumber(skipped or 0), due = tonumber(due or 0), staged_at = tonumber(staged_at or 0),
    is_unfinished = (rounds or '0') ~= (recorded or '0'), wasted_ms = tonumber(wasted or 0), lock = lock_of(key .. ':lock'),
    queues = queues})
end

return run
