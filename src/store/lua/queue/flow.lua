-- The flow of jobs through queues: arrivals, ended attempts and run times, by minute.
--
-- flow:mM  hash  queue → `arrived attempts ms` of minute M since the epoch: jobs that arrived,
--                attempts that ended, and the sum of their run times; `commands/activity_add`
--                writes it

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call
local match = string.match

local MINUTE = 60000
-- Minutes over which run times are averaged: the current one and those before it.
local RUN_MINUTES = 10

local function of_minute(queue, minute)
  local arrived, attempts, ms = match(call('HGET', ctx.prefix .. 'flow:m' .. int(minute), queue) or '', '^(%d+) (%d+) (%d+)')
  return tonumber(arrived) or 0, tonumber(attempts) or 0, tonumber(ms) or 0
end

-- Returns a table with the jobs that arrived within the last 60 s, and the attempts that ended
-- within the last minutes and their run times in ms. The part of the minute before this one that
-- lies within the last 60 s is estimated.
local function recent(queue)
  local this = math.floor(ctx.now / MINUTE)
  local share = 1 - ctx.now % MINUTE / MINUTE
  local sums = {arrived = 0, attempts = 0, run_ms = 0}
  for minute = this - RUN_MINUTES + 1, this do
    local arrived, attempts, ms = of_minute(queue, minute)
    if minute == this then sums.arrived = sums.arrived + arrived end
    if minute == this - 1 then sums.arrived = sums.arrived + math.floor(arrived * share + 0.5) end
    sums.attempts, sums.run_ms = sums.attempts + attempts, sums.run_ms + ms
  end
  return sums
end

return {recent = recent}
