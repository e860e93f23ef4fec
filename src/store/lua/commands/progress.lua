-- Stores the progress of a job and extends its lease like a heartbeat. A job that is not active
-- stays unchanged.
--
-- prog:ID  hash  a: attempt, p: progress from 0 to 1 or '', d: data as JSON, m: message as JSON, t:
--                time
--
-- Takes
--   id        string   job
--   worker    string?  worker
--   progress  number?  0 to 1
--   data      string?  JSON
--   message   string?  JSON
--   tenant    string   the only tenant visible to the caller, or '' for all
--
-- Returns  `missing`, {conflict: {state: string, holder: string}}, or {done: …} with
--   state    string
--   attempt  number
--   stored   {attempt: number?, progress: number?, data: string?, message: string?, updated:
--            number?}  prog:ID

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local commit, emit, gather, int = runtime.commit, runtime.emit, runtime.gather, runtime.int
local job_load, job_save, lease_deadline = job_module.load, job_module.save, job_module.lease_deadline
local mark = job_module.mark
local write = packed.write
local call = redis.call
local format = string.format

local function run()
  local args = packed.read()
  local worker, data, message = args.worker, args.data, args.message
  local job = job_load(args.id, args.tenant)
  if not job then return write('missing') end
  local key = ctx.prefix .. 'prog:' .. job.id
  if job.state == 'active' then
    if worker and job.worker ~= '' and job.worker ~= worker then
      return write({conflict = {state = job.state, holder = job.worker}})
    end
    local before = call('HMGET', key, 'a', 'p')
    local reached = before[1] == int(job.attempt) and tonumber(before[2] or nil)
    local progress = args.progress
    -- Within an attempt, progress never decreases.
    if not progress or reached and reached > progress then progress = reached or nil end
    if before[1] ~= int(job.attempt) then call('UNLINK', key) end
    call('HSET', key, 'a', int(job.attempt), 'p', progress and format('%.17g', progress) or '', 't', ctx.now_text)
    if data then call('HSET', key, 'd', data) end
    if message then call('HSET', key, 'm', message) end
    mark(job, 'p')
    job.visible_until = int(ctx.now + (tonumber(job.period) or tonumber(job.visibility) or ctx.settings.visibility))
    if job.beat then job.stalled_at = int(ctx.now + tonumber(job.beat)) end
    gather('ZADD', job_module.LEASES, int(lease_deadline(job)), job.id)
    job_save(job)
    emit('job.progress', job, '"attempt":' .. job.attempt .. (progress and ',"progress_percent":' .. format('%.4g', progress * 100) or '')
      .. (message and ',"progress_message":' .. message or ''))
    commit()
  end
  local attempt, progress, stored_data, stored_message, updated = unpack(call('HMGET', key, 'a', 'p', 'd', 'm', 't'))
  return write({done = {state = job.state, attempt = tonumber(job.attempt), stored = {attempt = tonumber(attempt),
    progress = tonumber(progress), data = stored_data or nil, message = stored_message or nil, updated = tonumber(updated)}}})
end

return run
