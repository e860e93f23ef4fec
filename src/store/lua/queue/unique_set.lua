-- Maintains the set of jobs that share a unique key (`queue/unique`).

local ctx = require('lib/context')
local int = require('lib/number').int

local call = redis.call
local find, match = string.find, string.match

local ENDS = {completed = 'c', cancelled = 'x', discarded = 'd'}
local MOST_ENDED = 64

-- Adds a job that has not ended.
local function add(job)
  local set = ctx.prefix .. 'unique:' .. match(job.unique, '^%S+')
  call('ZADD', set, '+inf', job.id)
  call('PERSIST', set)
end

-- Removes a job that ended. If its own policy counts jobs in that state, keeps it for as long as
-- its record instead.
local function release(job, state, keep_ms)
  local key, states = match(job.unique, '^(%S+) (%S+)')
  local set = ctx.prefix .. 'unique:' .. key
  if find(states, ENDS[state], 1, true) then
    call('ZADD', set, int(ctx.now + keep_ms), job.id)
    call('ZREMRANGEBYRANK', set, 0, -1 - MOST_ENDED)
  else
    call('ZREM', set, job.id)
  end
  local last = call('ZRANGE', set, -1, -1, 'WITHSCORES')[2]
  if last and tonumber(last) ~= math.huge then call('PEXPIREAT', set, last) end
end

return {add = add, release = release}
