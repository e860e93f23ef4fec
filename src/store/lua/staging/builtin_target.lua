-- The promotion target for fairgate's own queues: makes promoted jobs available. `staging/promote`
-- calls its functions.
--
-- promoted:Q  string  sum of the weights of the tenants for which jobs were promoted last
--                     (`fairness/level`), with a TTL

local ctx = require('lib/context')
local job_module = require('queue/job')
local stage = require('staging/stage')
local record = require('lib/record')
local runtime = require('lib/runtime')

local on_begin, int = runtime.on_begin, runtime.int
local job_load, marked = job_module.load, job_module.marked
local job_promote = stage.job_promote
local call = redis.call

local records, has_written -- keys and records to write; true once a record has been written

on_begin(function()
  records, has_written = {}, false
end)

-- Writes the first record at once and gathers the others: a full Redis refuses a script at its first
-- write, and then promotes nothing.
local function save(job)
  local text = record.encode(job)
  if has_written then
    local size = #records
    records[size + 1], records[size + 2] = job.key, text
  else
    call('SET', job.key, text)
    has_written = true
  end
end

-- Makes a staged job available. Returns false if the job does not exist.
local function release(_, id)
  local job = job_load(id)
  if not job or not marked(job, 's') then return false end
  job_promote(job)
  save(job)
  return true
end

-- TTL of `promoted:Q`.
local PROMOTED_MS = '600000'

-- Ends a call. `weight` is the sum of the weights of the tenants that waited.
local function push_released(queue, weight)
  for first = 1, #records, 4000 do call('MSET', unpack(records, first, math.min(first + 3999, #records))) end
  -- If tenants take turns in the queue, promoted jobs together have this weight: `fairness/level`.
  if ctx.state.levels then call('SET', ctx.prefix .. 'promoted:' .. queue, int(weight), 'PX', PROMOTED_MS) end
end

-- Returns true if the call should end early; it never does here.
local function is_full() return false end

return {is_full = is_full, push_released = push_released, release = release}
