-- Fires a cron: stores its job like any other, and sets the next time in the same call.
--
-- Several processes may try. Exactly one succeeds for each time, because the call checks the
-- version and the next time of the cron. A process that dies before the call has changed nothing.
--
-- ARGV[9…]
--   name         cron
--   version      version of the cron that the caller read
--   at           time for which it fires, or '' on request of a client
--   next_at      next time, or '' if there is none
--   overlap      overlap policy
--   expression   cron expression, as JSON
--   no_job       reason why there is no job, or ''
--   type, queue  of the job
--   …            unless `no_job` is set, a request with the job, as `queue/enqueue` describes it
--
-- Returns  {'ok', answer of the request}, {'gone'} if another process fired the cron or it has
--          changed, {'stale'} if the plan rules have changed, or {'skipped', reason, id of the job
--          that caused it or ''}

local ctx = require('lib/context')
local job = require('queue/job')
local enqueue = require('queue/enqueue')
local detach = require('queue/detach')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, stamp = runtime.commit, runtime.emit, runtime.stamp
local job_load = job.load
local enqueue_request, register_queues = enqueue.enqueue_request, enqueue.register_queues
local job_cancel = detach.job_cancel
local call = redis.call
local match = string.match

-- First argument of the request.
local FIRST = 18
-- Outcome and the next two values of an answer. The last of them is the job's id or state:
-- `queue/enqueue`.
local ANSWER = wire.pattern(4)

local function run()
  local name, version, at, next_at, overlap, expression, no_job, type, queue = unpack(ctx.args, 9, 17)
  local key, CRONS = ctx.prefix .. 'cron:' .. name, ctx.prefix .. 'crons'
  local about = {id = name, type = type, queue = queue}
  local scheduled = at == '' and ctx.now_text or at

  if call('HGET', key, 'version') ~= version then return {'gone'} end
  if at ~= '' and tonumber(call('ZSCORE', CRONS, name) or nil) ~= tonumber(at) then return {'gone'} end
  if no_job == '' and ctx.args[FIRST + 3] ~= ctx.state.rules then return {'stale'} end

  local function event_data(data)
    return '"cron_expr":' .. expression .. ',"scheduled_at":' .. stamp(scheduled) .. data
  end

  local function set_next()
    if at ~= '' then call('ZADD', CRONS, next_at == '' and '+inf' or next_at, name) end
  end

  local function skip(reason, existing)
    set_next()
    emit('cron.skipped', about, event_data(',"reason":"' .. reason .. '"' .. (existing and ',"existing_job_id":"' .. existing .. '"' or '')))
    commit()
    return {'skipped', reason, existing or ''}
  end

  if no_job ~= '' then return skip(no_job) end

  -- The overlap policy applies if the last job of this cron has not ended.
  local last, id = call('HGET', key, 'job'), ctx.args[FIRST + 4]
  if last == id then return {'ok', (enqueue_request(FIRST))} end -- a resend
  local before = last and job_load(last)
  if before and before.finished == '' then
    if overlap == 'skip' then return skip('overlap_skip', last) end
    if overlap == 'cancel_previous' then
      job_cancel(before, ',"reason":"cron overlap"')
    end
  end

  local answer = enqueue_request(FIRST)
  local outcome, _, third = match(wire.join(answer, '', '', ''), ANSWER)
  local existing = outcome == 'exists' and third or match(third, '^=(.*)$')
  register_queues()
  if outcome == 'error' then
    commit()
    return {'ok', answer}
  elseif outcome == 'full' or outcome == 'bound' then
    return skip('queue_full')
  elseif outcome == 'limited' then
    return skip('tenant_limit')
  elseif outcome ~= 'ok' or existing then
    return skip('duplicate', existing)
  end
  set_next()
  call('HSET', key, 'last', scheduled, 'job', id)
  call('HINCRBY', key, 'runs', 1)
  emit('cron.triggered', about, event_data(',"job_id":"' .. id .. '"'))
  commit()
  return {'ok', answer}
end

return run
