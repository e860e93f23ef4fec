-- Makes promoted jobs available in our own queues.

local ctx = require('lib/context')
local job_module = require('queue/job')
local stage = require('staging/stage')
local int = require('lib/number').int

local job_load, marked = job_module.load, job_module.marked
local job_release = stage.job_release
local call = redis.call

-- Makes a staged job available; false if there is none.
local function release(_, id)
  local job = job_load(id)
  if not job or not marked(job, 's') then return false end
  job_release(job)
  return true
end

-- How long it is known for which tenants jobs were promoted.
local PROMOTED_MS = '600000'

-- Ends a call that has released jobs of tenants that weigh so much together.
local function push_released(queue, weight)
  -- If other tenants take turns, promoted jobs together have the share of theirs: see `fairness/level`.
  if ctx.state.levels then call('SET', ctx.prefix .. 'promoted:' .. queue, int(weight), 'PX', PROMOTED_MS) end
end

-- Whether one call has released as much as it should.
local function is_full() return false end

return {is_full = is_full, push_released = push_released, release = release}
