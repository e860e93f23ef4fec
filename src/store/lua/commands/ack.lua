-- Completes active jobs.
--
-- ARGV[9…] requests; for each: id, worker or '', op, the one tenant whose jobs are there or '', 1 if there is a result, result
-- Returns  {job view or {'missing'} or {'conflict', state, holder or ''} or {'error', text}, …}

-- Modules that only take part.
require('workflows/workflow')

local ctx = require('lib/context')
local activity = require('tenants/activity')
local job_module = require('queue/job')
local finish = require('queue/finish')
local answer = require('queue/answer')
local runtime = require('lib/runtime')

local commit, emit, gather, guarded, int = runtime.commit, runtime.emit, runtime.gather, runtime.guarded, runtime.int
local did, job_completed = activity.did, activity.job_completed
local further_plain, job_view, lease_release = job_module.further_plain, job_module.view, job_module.lease_release
local mark, slots_release, unmark = job_module.mark, job_module.slots_release, job_module.unmark
local SHORTEST, job_finish = finish.SHORTEST, finish.job_finish
local job_to_answer = answer.job_to_answer
local call = redis.call
local find, match = string.find, string.match

local sub = string.sub

-- A job whose record has nothing but the lease: no marks, nothing of an attempt before. Attempt; from place to start of
-- waiting; start, visibility, worker, period, pool; where what does not change begins; queue, type, lane; where further fields begin.
local PLAIN = '^active\31(%d+)\31(%d+\31%d+\31%d+\31)(%d+)\31\31(%d+)\31(%C*)\31\31(%d*)\31\31\31\31\31(%C*)\31\30()'
  .. '(%C*)\31(%C*)\31(%C*)\31()'

local JOB, FINISHED, kept_ms
local has_limits -- where there are none, a lease counts against nothing but its pool

-- Completes a plain job, and writes what `ack` would write, without a table of all its fields: most jobs are plain. Nil if it is not.
local function ack_plain(id, key, text, worker, op, scope, has_result, result)
  local attempt, waited, started, visible, holder, period, pool, rest, queue, kind, lane, further = match(text, PLAIN)
  if not attempt or (worker ~= holder and worker ~= '' and holder ~= '') then return nil end
  local is_plain, tenant = further_plain(text, further)
  if not is_plain or (scope ~= '' and scope ~= (tenant or '_default')) then return nil end
  if has_result then call('SET', ctx.prefix .. 'res:' .. id, result, 'PX', kept_ms) end
  local view = 'completed\31' .. attempt .. '\31' .. waited .. started .. '\31' .. ctx.now_text .. '\31' .. visible .. '\31\31' .. op
    .. '\31' .. period .. (has_result and '\31\31\31\31\31\31r\30' or '\31\31\31\31\31\31\30') .. sub(text, rest)
  call('SET', key, view, 'PX', kept_ms)
  gather('ZREM', job_module.LEASES, id)
  if holder ~= '' then gather('ZREM', job_module.HELD, holder .. '\31' .. id) end
  if has_limits or pool ~= '' then slots_release(id, queue, lane, tenant, pool) end
  gather('ZADD', FINISHED, ctx.now_text, id)
  local took = ctx.now - tonumber(started)
  job_completed(queue, tenant, took)
  ctx.log[#ctx.log + 1] = 'job.completed\31' .. id .. '\31' .. kind .. '\31' .. queue .. (tenant and '\31\28' .. tenant or '\31')
    .. '\31"state":"completed","attempt":' .. attempt .. ',"duration_ms":' .. int(took)
  return has_result and view .. '\30\30' .. result .. '\30\30' or view
end

local function ack(id, worker, op, scope, has_result, result)
  local key = JOB .. id
  local text = call('GET', key)
  if not text then return {'missing'} end
  local view = ack_plain(id, key, text, worker, op, scope, has_result, result)
  if view then return view end
  local job, result_instead = job_to_answer(id, worker, op, scope, text)
  if not job then return result_instead end
  lease_release(job)
  unmark(job, 'e')
  if has_result then
    call('SET', ctx.prefix .. 'res:' .. id, result)
    mark(job, 'r')
  end
  job_finish(job, 'completed')
  did(job.tenant, 'c', 1)
  emit('job.completed', job, '"state":"completed","attempt":' .. job.attempt
    .. ',"duration_ms":' .. int(ctx.now - tonumber(job.started)))
  return job_view(job)
end

local function run()
  JOB, FINISHED, kept_ms = ctx.prefix .. 'job:', ctx.prefix .. 'finished:completed', int(math.max(finish.retention('completed'), SHORTEST))
  has_limits = ctx.state.limits or find(ctx.state.policy, '[xy]') or find(ctx.allowed, 'c', 1, true)
  local answers, at = {}, 10
  for request = 1, tonumber(ctx.args[9]) do
    answers[request] = guarded(ack, ctx.args[at], ctx.args[at + 1], ctx.args[at + 2], ctx.args[at + 3], ctx.args[at + 4] == '1', ctx.args[at + 5])
    at = at + 6
  end
  commit()
  return answers
end

return run
