-- Deletes an ended job.
--
-- ARGV[9…]
--   id         job
--   is_resend  1 if this call is a resend: a job that is gone counts as deleted
--   tenant     the only tenant visible to the caller, or '' for all
--   any        1 for any ended job, 0 for dead letters only
--
-- Returns  {'ok'}, {'missing'} or {'conflict', state, ''}

local ctx = require('lib/context')
local job_module = require('queue/job')
local finish = require('queue/finish')
local runtime = require('lib/runtime')

local commit, emit = runtime.commit, runtime.emit
local job_load = job_module.load
local job_erase = finish.job_erase
local call = redis.call

local function run()
  local id, is_resend, tenant, any = unpack(ctx.args, 9, 12)
  local is_dead = call('ZSCORE', ctx.prefix .. 'dead', id)
  local job = (is_dead or any == '1') and job_load(id, tenant)
  if not job then return {is_resend == '1' and 'ok' or 'missing'} end
  if job.finished == '' then return {'conflict', job.state, ''} end
  call('ZREM', ctx.prefix .. 'dead', id)
  call('ZREM', ctx.prefix .. 'finished:' .. job.state, id)
  job_erase(id)
  emit(is_dead and 'dead_letter.deleted' or 'job.deleted', job)
  commit()
  return {'ok'}
end

return run
