-- Stores the progress of a job and extends its lease like a heartbeat. A job that is not active
-- stays unchanged.
--
-- prog:ID  hash  a: attempt, p: progress from 0 to 1 or '', d: data as JSON, m: message as JSON, t:
--                time
--
-- ARGV[9…]
--   id        job
--   worker    worker, or ''
--   progress  0 to 1, or ''
--   data      JSON, or ''
--   message   JSON, or ''
--   tenant    the only tenant visible to the caller, or '' for all
--
-- Returns  {state, attempt, fields of prog:ID}, {'missing'} or {'conflict', state, holder}

local ctx = require('lib/context')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local commit, emit, gather, int = runtime.commit, runtime.emit, runtime.gather, runtime.int
local job_load, job_save, lease_deadline = job_module.load, job_module.save, job_module.lease_deadline
local mark = job_module.mark
local call = redis.call
local format = string.format

local function run()
  local id, worker, reported, data, message, tenant = unpack(ctx.args, 9, 14)
  local job = job_load(id, tenant)
  if not job then return {'missing'} end
  local key = ctx.prefix .. 'prog:' .. job.id
  if job.state == 'active' then
    if worker ~= '' and job.worker ~= '' and job.worker ~= worker then return {'conflict', job.state, job.worker} end
    local before = call('HMGET', key, 'a', 'p')
    local reached = before[1] == int(job.attempt) and tonumber(before[2] or nil)
    local progress = tonumber(reported)
    -- Within an attempt, progress never decreases.
    if not progress or reached and reached > progress then progress = reached or nil end
    if before[1] ~= int(job.attempt) then call('UNLINK', key) end
    call('HSET', key, 'a', int(job.attempt), 'p', progress and format('%.17g', progress) or '', 't', ctx.now_text)
    if data ~= '' then call('HSET', key, 'd', data) end
    if message ~= '' then call('HSET', key, 'm', message) end
    mark(job, 'p')
    job.visible_until = int(ctx.now + (tonumber(job.period) or tonumber(job.visibility) or ctx.settings.visibility))
    if job.beat then job.stalled_at = int(ctx.now + tonumber(job.beat)) end
    gather('ZADD', job_module.LEASES, int(lease_deadline(job)), job.id)
    job_save(job)
    emit('job.progress', job, '"attempt":' .. job.attempt .. (progress and ',"progress_percent":' .. format('%.4g', progress * 100) or '')
      .. (message ~= '' and ',"progress_message":' .. message or ''))
    commit()
  end
  local fields = call('HMGET', key, 'a', 'p', 'd', 'm', 't')
  for index = 1, 5 do fields[index] = fields[index] or '' end
  return {job.state, int(job.attempt), fields}
end

return run
