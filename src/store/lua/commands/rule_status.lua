-- Returns the state of a plan rule. Read-only.
--
-- ARGV[9…]
--   rule   rule
--   queue  a main queue to include even if nothing is staged for it, or ''
--
-- Returns  {now, {field, value, …} of plan:R, holder or '', token, ms left of the lock, {result of
--          `staging/observe`} for each queue, …}

local ctx = require('lib/context')
local plan = require('staging/plan')
local observe_module = require('staging/observe')

local plan_queues = plan.queues
local observe = observe_module.observe
local call = redis.call

local function run()
  local key = ctx.prefix .. 'plan:' .. ctx.args[9]
  local lock = call('HMGET', key .. ':lock', 'holder', 'token')
  local answer = {ctx.now_text, call('HGETALL', key), lock[1] or '', lock[2] or '', call('PTTL', key .. ':lock')}
  local seen = {}
  for _, queue in ipairs(plan_queues(ctx.args[9])) do
    answer[#answer + 1] = observe(ctx.args[9], queue)
    seen[queue] = true
  end
  if ctx.args[10] ~= '' and not seen[ctx.args[10]] then answer[#answer + 1] = observe(ctx.args[9], ctx.args[10]) end
  return answer
end

return run
