-- A sign of life: keeps the worker's record, extends the reservations it names, and tells it what to do.
--
-- ARGV[9…] worker, state it reports or '', visibility ms or '', 1 to honour test directives, the one tenant whose jobs are there or
--          '', number of record fields,
--          names and values, ids of the jobs that it works on. Among the fields is `registers`, if it may change its pool, and `how`,
--          if it has a strategy: `strategy queue weight …`, weights in thousandths.
-- Returns  {directive, now, {extended id, …}, {cancelled id, …}}, or {'pool', name} if the worker is of another pool

local RANK = {running = 0, quiet = 1, terminate = 2}

run = function()
  local worker, reported, visibility, testing, scope = ARGV[9], ARGV[10], tonumber(ARGV[11]), ARGV[12] == '1', ARGV[13]
  if reported == '' then reported = 'running' end
  local key, first_job = P .. 'worker:' .. worker, 15 + tonumber(ARGV[14]) * 2
  local record, told = {'seen', now, 'state', reported}, {}
  for at = 15, first_job - 1, 2 do
    told[ARGV[at]] = ARGV[at + 1]
    if ARGV[at] ~= 'registers' then
      record[#record + 1] = ARGV[at]
      record[#record + 1] = ARGV[at + 1]
    end
  end

  -- A worker is of one pool. It may come to another one by registering anew, unless it still holds jobs. A pool that is gone is none.
  local pool = match(told.pool or '', '^"(.*)"$')
  if find(state.policy, 'p', 1, true) then
    local member = P .. 'member:' .. worker
    local own = match(call('HGET', key, 'pool') or '', '^"(.*)"$') or call('GET', member)
    if own and call('EXISTS', P .. 'pool:' .. own) == 0 then own = nil end
    local leaves = own and told.registers and told.pool and own ~= pool
    if own and pool and own ~= pool and (not leaves or #held_by(worker, 1) > 0) then return {'pool', own} end
    if leaves then call('ZREM', P .. 'pool:' .. own .. ':workers', worker) end
    local joins = pool or not leaves and own
    if joins then call('ZADD', P .. 'pool:' .. joins .. ':workers', now_text, worker) end
    if pool or leaves then
      call('UNLINK', member)
    elseif own then
      call('PEXPIRE', member, ARGV[8])
    end
  end
  if told.registers and not told.how then call('HDEL', key, 'how', 'strategy', 'weights') end
  if (pool or told.concurrency or told.how) and not state.gated then call('HSET', P .. 'state', 'gated', '1') end
  local directive = call('HGET', key, 'directive') or 'running'
  if call('EXISTS', key) == 0 then
    record[#record + 1] = 'since'
    record[#record + 1] = now
    emit('worker.started', subject(worker))
  end
  call('HSET', key, unpack(record))
  call('ZADD', P .. 'workers', now, worker)
  set_halted(worker, reported ~= 'running' or directive ~= 'running')

  local extended, cancelled = {}, {}
  for at = first_job, #ARGV do
    local id = ARGV[at]
    local job = job_load(id, scope)
    if job and job.state == 'active' and (job.worker == '' or job.worker == worker) then
      local period = visibility or tonumber(job.period) or tonumber(job.visibility) or tonumber(ARGV[2])
      job.visible_until = int(now + period)
      if job.beat then job.stalled_at = int(now + tonumber(job.beat)) end
      gather('ZADD', LEASES, lease_deadline(job), id)
      job_save(job)
      extended[#extended + 1] = id
      emit('job.heartbeat', job, '"attempt":' .. job.attempt .. ',"visible_until":' .. stamp(job.visible_until))
      local asked = testing and job.directive
      if asked and (RANK[asked] or 0) > RANK[directive] then directive = asked end
    elseif job and job.state == 'cancelled' then
      cancelled[#cancelled + 1] = id
    end
  end
  commit()
  return {directive, now, extended, cancelled}
end
