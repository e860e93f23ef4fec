-- Returns the backlogs of queues and the pace at which jobs arrive and start. Read-only.
--
-- Takes
--   queues  list of string  queues
--   rules   list of string  plan rules whose staged jobs count
--
-- Returns
--   now     number
--   queues  list, in the order of the names, of
--     available   number   jobs, including those that wait for a limit
--     blocked     number   available jobs that wait for a limit
--     active      number   jobs
--     oldest      number?  time since when the oldest runnable job is available
--     staged      list of {rule: string, jobs: number}  rules with staged jobs for the queue
--     dispatched  number   jobs handed to workers within the last minute
--     arrived     number   jobs that arrived within the last minute
--     attempts    number   attempts that ended within the last minutes
--     run_ms      number   sum of their run times

local ctx = require('lib/context')
local packed = require('lib/packed')
local plan = require('staging/plan')
local queue_flow = require('queue/flow')
local runtime = require('lib/runtime')

local int = runtime.int
local queue_oldest = plan.queue_oldest
local call = redis.call

local MINUTE = 60000
local JOB = 2 ^ 40 -- a sum of `pace` counts jobs in the digits above this one, and ms below it

local function at_least_zero(text)
  return math.max(tonumber(text or nil) or 0, 0)
end

-- Returns the number of jobs of a queue that were dispatched within the last minute.
local function dispatched(queue)
  local last, jobs = math.floor(ctx.now / 1000), 0
  for minute = math.floor(ctx.now / MINUTE) - 1, math.floor(ctx.now / MINUTE) do
    local fields = {}
    for second = math.max(last - 59, minute * 60), math.min(last, minute * 60 + 59) do
      fields[#fields + 1] = queue .. ' ' .. int(second)
    end
    if #fields > 0 then
      for _, sum in ipairs(call('HMGET', ctx.prefix .. 'pace:' .. int(minute), unpack(fields))) do
        jobs = jobs + math.floor((tonumber(sum or nil) or 0) / JOB)
      end
    end
  end
  return jobs
end

-- Returns for each queue the rules with staged jobs for it.
local function staged_by(rules, queues)
  local staged = {}
  for place = 1, #queues do staged[place] = {} end
  for _, rule in ipairs(rules) do
    local has = call('ZMSCORE', ctx.prefix .. 'plan:' .. rule .. ':queues', unpack(queues))
    for place, queue in ipairs(queues) do
      local jobs = has[place] and at_least_zero(call('HGET', ctx.prefix .. 'fair:' .. rule .. ':' .. queue, 'jobs')) or 0
      if jobs > 0 then
        local of_queue = staged[place]
        of_queue[#of_queue + 1] = {rule = rule, jobs = jobs}
      end
    end
  end
  return staged
end

local function run()
  local args = packed.read()
  local backlogs, staged = {}, staged_by(args.rules, args.queues)
  for place, queue in ipairs(args.queues) do
    local available, blocked, active = unpack(call('HMGET', ctx.prefix .. 'counts:' .. queue, 'available', 'blocked', 'active'))
    local flow = queue_flow.recent(queue)
    backlogs[place] = {available = at_least_zero(available), blocked = at_least_zero(blocked), active = at_least_zero(active),
      oldest = queue_oldest(queue), staged = staged[place], dispatched = dispatched(queue), arrived = flow.arrived,
      attempts = flow.attempts, run_ms = flow.run_ms}
  end
  return packed.write({now = ctx.now, queues = backlogs})
end

return run
