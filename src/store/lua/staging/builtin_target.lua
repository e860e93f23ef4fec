-- The promotion target for fairgate's own queues: makes promoted jobs available. `staging/promote`
-- calls its functions.
--
-- promoted:Q  string  sum of the weights of the tenants for which jobs were promoted last
--                     (`fairness/level`), with a TTL

local ctx = require('lib/context')
local job_module = require('queue/job')
local stage = require('staging/stage')
local int = require('lib/number').int

local job_load, marked = job_module.load, job_module.marked
local job_release = stage.job_release
local call = redis.call

-- Makes a staged job available. Returns false if the job does not exist.
local function release(_, id)
  local job = job_load(id)
  if not job or not marked(job, 's') then return false end
  job_release(job)
  return true
end

-- TTL of `promoted:Q`.
local PROMOTED_MS = '600000'

-- Ends a call. `weight` is the sum of the weights of the tenants that waited.
local function push_released(queue, weight)
  -- If tenants take turns in the queue, promoted jobs together have this weight: `fairness/level`.
  if ctx.state.levels then call('SET', ctx.prefix .. 'promoted:' .. queue, int(weight), 'PX', PROMOTED_MS) end
end

-- Returns true if the call should end early; it never does here.
local function is_full() return false end

return {is_full = is_full, push_released = push_released, release = release}
