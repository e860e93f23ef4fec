-- Workers, and recovery of their jobs.
--
-- key           type  meaning
-- worker:W      hash  what a worker reported about itself; `how`, the strategy by which it chooses
--                     among its queues, is for scripts
-- workers       zset  workers by last sign of life
-- halted        set   workers that get no jobs
-- state.halted        size of `halted`, which a fetch reads without an additional command

local ctx = require('lib/context')
local worker_jobs = require('queue/worker_jobs')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local emit, guarded, subject = runtime.emit, runtime.guarded, runtime.subject
local job_load = job_module.load
local call = redis.call
local match = string.match

local function set_halted(worker, is_halted)
  if call(is_halted and 'SADD' or 'SREM', ctx.prefix .. 'halted', worker) == 1 then
    call('HSET', ctx.prefix .. 'state', 'halted', call('SCARD', ctx.prefix .. 'halted'))
  end
end

-- Passes up to `limit` jobs of a worker that is gone to `handle`, which saves them. If those were
-- all, removes the worker. Returns the number of jobs, and 1 if the worker was known.
local function take_from(worker, limit, reason, handle)
  local ids = worker_jobs.ids(worker, limit)
  local function take(id)
    local job = job_load(id)
    if job and job.state == 'active' then
      handle(job)
    else
      worker_jobs.remove(worker, id)
    end
  end
  for _, id in ipairs(ids) do
    if guarded(take, id) then worker_jobs.remove(worker, id) end
  end
  if #ids < limit then
    local known = call('ZREM', ctx.prefix .. 'workers', worker)
    local pool = match(call('HGET', ctx.prefix .. 'worker:' .. worker, 'pool') or '', '^"(.*)"$') or call('GET', ctx.prefix .. 'member:' .. worker)
    if pool then call('ZREM', ctx.prefix .. 'pool:' .. pool .. ':workers', worker) end
    call('UNLINK', ctx.prefix .. 'member:' .. worker)
    call('UNLINK', ctx.prefix .. 'worker:' .. worker)
    set_halted(worker, false)
    if known == 1 then emit('worker.stopped', subject(worker), '"reason":"' .. reason .. '"') end
    return #ids, known
  end
  return #ids, 1
end

return {set_halted = set_halted, take_from = take_from}
