-- Deletes an ended job.
--
-- Takes
--   id      string   job
--   tenant  string   the only tenant visible to the caller, or '' for all
--   any     boolean  true for any ended job, false for dead letters only
--
-- Returns  `done`, also for a job that is gone if this call is a resend; `missing` or {conflict:
--          string} with the state

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local finish = require('queue/finish')
local runtime = require('lib/runtime')

local commit, emit = runtime.commit, runtime.emit
local job_load = job_module.load
local job_erase = finish.job_erase
local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local id = args.id
  local is_dead = call('ZSCORE', ctx.prefix .. 'dead', id)
  local job = (is_dead or args.any) and job_load(id, args.tenant)
  if not job then return write(args.is_resend and 'done' or 'missing') end
  if job.finished == '' then return write({conflict = job.state}) end
  call('ZREM', ctx.prefix .. 'dead', id)
  call('ZREM', ctx.prefix .. 'finished:' .. job.state, id)
  job_erase(id)
  emit(is_dead and 'dead_letter.deleted' or 'job.deleted', job)
  commit()
  return write('done')
end

return run
