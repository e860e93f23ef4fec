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
  local rule, extra_queue = unpack(ctx.args, 9, 10)
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = call('HMGET', key .. ':lock', 'holder', 'token')
  local answer = {ctx.now_text, call('HGETALL', key), lock[1] or '', lock[2] or '', call('PTTL', key .. ':lock')}
  local seen = {}
  for _, queue in ipairs(plan_queues(rule)) do
    answer[#answer + 1] = observe(rule, queue)
    seen[queue] = true
  end
  if extra_queue ~= '' and not seen[extra_queue] then answer[#answer + 1] = observe(rule, extra_queue) end
  return answer
end

return run
