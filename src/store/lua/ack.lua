-- Completes active jobs.
--
-- ARGV[9…] requests; for each: id, worker or '', op, the one tenant whose jobs are there or '', 1 if there is a result, result
-- Returns  {job view or {'missing'} or {'conflict', state, holder or ''} or {'error', text}, …}

-- A function has room for 200 locals, and so has each inside it.
local function define()

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
  if has_result then call('SET', P .. 'res:' .. id, result, 'PX', kept_ms) end
  local view = 'completed\31' .. attempt .. '\31' .. waited .. started .. '\31' .. now_text .. '\31' .. visible .. '\31\31' .. op
    .. '\31' .. period .. (has_result and '\31\31\31\31\31\31r\30' or '\31\31\31\31\31\31\30') .. sub(text, rest)
  call('SET', key, view, 'PX', kept_ms)
  gather('ZREM', LEASES, id)
  if holder ~= '' then gather('ZREM', HELD, holder .. '\31' .. id) end
  if has_limits or pool ~= '' then slots_release(id, queue, lane, tenant, pool) end
  gather('ZADD', FINISHED, now_text, id)
  local took = now - tonumber(started)
  job_completed(queue, tenant, took)
  log[#log + 1] = 'job.completed\31' .. id .. '\31' .. kind .. '\31' .. queue .. (tenant and '\31\28' .. tenant or '\31')
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
    call('SET', P .. 'res:' .. id, result)
    mark(job, 'r')
  end
  job_finish(job, 'completed')
  did(job.tenant, 'c', 1)
  emit('job.completed', job, '"state":"completed","attempt":' .. job.attempt
    .. ',"duration_ms":' .. int(now - tonumber(job.started)))
  return job_view(job)
end

run = function()
  JOB, FINISHED, kept_ms = P .. 'job:', P .. 'finished:completed', int(math.max(tonumber(KEEP.completed), SHORTEST))
  has_limits = state.limits or find(state.policy, '[xy]') or find(allowed, 'c', 1, true)
  local answers, at = {}, 10
  for request = 1, tonumber(ARGV[9]) do
    answers[request] = guarded(ack, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] == '1', ARGV[at + 5])
    at = at + 6
  end
  commit()
  return answers
end

end
define()
