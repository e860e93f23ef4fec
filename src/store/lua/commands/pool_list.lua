-- Returns the state of pools and queues. Read-only.
--
-- Takes
--   pools  list of string  names
--
-- Returns
--   queues  map of all queues to {jobs: number, waited_ms: number, active: number}: jobs dispatched
--           within the last minute, the sum of their waits, and active jobs
--   pools   list of {active_workers: number, active_jobs: number}, in the order of the names

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call
local match = string.match

local MINUTE = 60000
local JOB = 2 ^ 40 -- a sum of `pace` counts jobs in the digits above this one, and ms below it

local function status(name)
  local key = ctx.prefix .. 'pool:' .. name
  return {active_workers = call('ZCOUNT', key .. ':workers', int(ctx.now - ctx.settings.dead_after), '+inf'),
    active_jobs = call('SCARD', key .. ':run')}
end

local function run()
  local queues, pools = {}, {}
  local function queue(name)
    queues[name] = queues[name] or {jobs = 0, waited_ms = 0, active = 0}
    return queues[name]
  end
  for _, name in ipairs(call('HKEYS', ctx.prefix .. 'queues')) do
    queue(name).active = math.max(tonumber(call('HGET', ctx.prefix .. 'counts:' .. name, 'active') or 0), 0)
  end
  local first = math.floor((ctx.now - MINUTE) / 1000) + 1
  for minute = math.floor(ctx.now / MINUTE) - 1, math.floor(ctx.now / MINUTE) do
    local sums = call('HGETALL', ctx.prefix .. 'pace:' .. int(minute))
    for place = 1, #sums, 2 do
      local name, second = match(sums[place], '^(.*) (%d+)$')
      if tonumber(second) >= first then
        local dispatched, sum = queue(name), tonumber(sums[place + 1])
        dispatched.jobs = dispatched.jobs + math.floor(sum / JOB)
        dispatched.waited_ms = dispatched.waited_ms + sum % JOB
      end
    end
  end
  for place, name in ipairs(packed.read().pools) do pools[place] = status(name) end
  return packed.write({queues = queues, pools = pools})
end

return run
