-- Fires a cron: its job is stored like any other. Of all who try, one fires for each time, and the next time is set in
-- the same step: whoever dies before has done nothing, whoever comes after finds another time.
--
-- ARGV[9…] name, version under which it was read, the time for which it fires or '' if a person asked, the next time, overlap policy,
--          its expression as JSON, why there is no job or '', its job's type and queue; then, unless there is no job, a request with
--          that job as `queue/enqueue` has it
-- Returns  {'ok', answer}, {'gone'} if another fired it or it is not the same any more, {'stale'} if other rules hold, or
--          {'skipped', why, the job because of which or ''}

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

-- Outcome and two values of it, of which the second is a job's id or state: see `queue/enqueue`.
local ANSWER = wire.pattern(4)

local function run()
  local name, version, at, next_at, overlap = ctx.args[9], ctx.args[10], ctx.args[11], ctx.args[12], ctx.args[13]
  local key, CRONS = ctx.prefix .. 'cron:' .. name, ctx.prefix .. 'crons'
  local about = {id = name, type = ctx.args[16], queue = ctx.args[17]}
  local scheduled = at == '' and ctx.now_text or at
  local FIRST = 18

  if call('HGET', key, 'version') ~= version then return {'gone'} end
  if at ~= '' and tonumber(call('ZSCORE', CRONS, name) or nil) ~= tonumber(at) then return {'gone'} end
  if ctx.args[15] == '' and ctx.args[FIRST + 3] ~= ctx.state.rules then return {'stale'} end

  local function told(data)
    return '"cron_expr":' .. ctx.args[14] .. ',"scheduled_at":' .. stamp(scheduled) .. data
  end

  local function go_on()
    if at ~= '' then call('ZADD', CRONS, next_at == '' and '+inf' or next_at, name) end
  end

  local function skip(why, existing)
    go_on()
    emit('cron.skipped', about, told(',"reason":"' .. why .. '"' .. (existing and ',"existing_job_id":"' .. existing .. '"' or '')))
    commit()
    return {'skipped', why, existing or ''}
  end

  if ctx.args[15] ~= '' then return skip(ctx.args[15]) end

  -- The last job that it made, if that has not ended: neither running nor waiting.
  local last, id = call('HGET', key, 'job'), ctx.args[FIRST + 4]
  if last == id then return {'ok', (enqueue_request(FIRST))} end -- sent again
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
  go_on()
  call('HSET', key, 'last', scheduled, 'job', id)
  call('HINCRBY', key, 'runs', 1)
  emit('cron.triggered', about, told(',"job_id":"' .. id .. '"'))
  commit()
  return {'ok', answer}
end

return run
