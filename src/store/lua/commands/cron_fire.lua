-- Fires a cron: stores its job like any other, and sets the next time in the same call.
--
-- Several processes may try. Exactly one succeeds for each time, because the call checks the
-- version and the next time of the cron. A process that dies before the call has changed nothing.
--
-- Takes
--   name        string   cron
--   version     string   version of the cron that the caller read
--   at          number?  time for which it fires; nil on request of a client
--   next        number?  next time; nil if there is none
--   overlap     string   overlap policy
--   expression  string   cron expression, as JSON
--   no_job      string?  reason why there is no job
--   type        string   of the job
--   queue       string   of the job
--   id          string?  of the job
--   rules       string?  version of the plan rules that the caller read
-- and, unless `no_job` is set, behind it a request with the job, as `queue/enqueue` describes it
--
-- Returns  {answer: string} to the request, `gone` if another process fired the cron or it has
--          changed, `stale` if the plan rules have changed, or {skipped: {reason: string, job:
--          string?}} with the id of the job that caused it

local ctx = require('lib/context')
local job = require('queue/job')
local enqueue = require('queue/enqueue')
local detach = require('queue/detach')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, int, stamp = runtime.commit, runtime.emit, runtime.int, runtime.stamp
local job_load = job.load
local enqueue_request, register_queues = enqueue.enqueue_request, enqueue.register_queues
local job_cancel = detach.job_cancel
local FIRST_WORD, write = packed.FIRST_WORD, packed.write
local call = redis.call
local match = string.match

-- Outcome and the next two values of an answer. The last of them is the job's id or state:
-- `queue/enqueue`.
local ANSWER = wire.pattern(4)

local function run()
  local args = packed.read()
  local name, at, no_job = args.name, args.at, args.no_job
  local key, CRONS = ctx.prefix .. 'cron:' .. name, ctx.prefix .. 'crons'
  local about = {id = name, type = args.type, queue = args.queue}
  local scheduled = int(at or ctx.now)

  if call('HGET', key, 'version') ~= args.version then return write('gone') end
  if at and tonumber(call('ZSCORE', CRONS, name) or nil) ~= at then return write('gone') end
  if not no_job and args.rules ~= ctx.state.rules then return write('stale') end

  local function event_data(data)
    return '"cron_expr":' .. args.expression .. ',"scheduled_at":' .. stamp(scheduled) .. data
  end

  local function set_next()
    if at then call('ZADD', CRONS, args.next or '+inf', name) end
  end

  local function skip(reason, existing)
    set_next()
    emit('cron.skipped', about, event_data(',"reason":"' .. reason .. '"' .. (existing and ',"existing_job_id":"' .. existing .. '"' or '')))
    commit()
    return write({skipped = {reason = reason, job = existing}})
  end

  if no_job then return skip(no_job) end

  -- The overlap policy applies if the last job of this cron has not ended.
  local last, id = call('HGET', key, 'job'), args.id
  if last == id then return write({answer = (enqueue_request(FIRST_WORD))}) end -- a resend
  local before = last and job_load(last)
  if before and before.finished == '' then
    if args.overlap == 'skip' then return skip('overlap_skip', last) end
    if args.overlap == 'cancel_previous' then
      job_cancel(before, ',"reason":"cron overlap"')
    end
  end

  local answer = enqueue_request(FIRST_WORD)
  local outcome, _, third = match(wire.join(answer, '', '', ''), ANSWER)
  local existing = outcome == 'exists' and third or match(third, '^=(.*)$')
  register_queues()
  if outcome == 'error' then
    commit()
    return write({answer = answer})
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
  return write({answer = answer})
end

return run
