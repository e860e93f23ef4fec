-- Processes a heartbeat: updates the worker's record, extends the leases it names, and returns a
-- directive.
--
-- ARGV[9…]
--   worker      worker
--   state       state that it reports, or ''
--   visibility  new visibility timeout in ms, or ''
--   testing     1 to obey test directives of jobs
--   tenant      the only tenant visible to the caller, or '' for all
--   fields      number of fields of the worker's record
--   …           names and values of the fields, then ids of the jobs that it works on
--
-- Of the fields, `registers` marks a registration, which may change the worker's pool. `how` is set
-- if the worker has a strategy: `strategy queue weight …`, weights in thousandths.
--
-- Returns  {directive, now, {extended id, …}, {cancelled id, …}}, or {'pool', name} if the worker
--          belongs to another pool

local ctx = require('lib/context')
local job_module = require('queue/job')
local held = require('queue/held')
local worker_module = require('dispatch/worker')
local runtime = require('lib/runtime')

local commit, emit, gather, int, stamp = runtime.commit, runtime.emit, runtime.gather, runtime.int, runtime.stamp
local subject = runtime.subject
local job_load, job_save, lease_deadline = job_module.load, job_module.save, job_module.lease_deadline
local set_halted = worker_module.set_halted
local call = redis.call
local find, match = string.find, string.match

local FIRST_FIELD = 15 -- place of the record's fields in the arguments
local RANK = {running = 0, quiet = 1, terminate = 2}

-- Puts a worker into its pool. Returns the name of its pool if it may not move to `pool`, else nil.
--
-- A worker belongs to one pool. It can move to another one by registering again, unless it still
-- holds jobs. A pool that no longer exists does not count.
local function join_pool(worker, key, pool, fields)
  local member = ctx.prefix .. 'member:' .. worker
  local own = match(call('HGET', key, 'pool') or '', '^"(.*)"$') or call('GET', member)
  if own and call('EXISTS', ctx.prefix .. 'pool:' .. own) == 0 then own = nil end
  local leaves = own and fields.registers and fields.pool and own ~= pool
  if own and pool and own ~= pool and (not leaves or held.count(worker) > 0) then return own end
  if leaves then call('ZREM', ctx.prefix .. 'pool:' .. own .. ':workers', worker) end
  local joins = pool or not leaves and own
  if joins then call('ZADD', ctx.prefix .. 'pool:' .. joins .. ':workers', ctx.now_text, worker) end
  if pool or leaves then
    call('UNLINK', member)
  elseif own then
    call('PEXPIRE', member, int(ctx.settings.dead_after))
  end
end

local function extend_lease(job, visibility)
  local period = visibility or tonumber(job.period) or tonumber(job.visibility) or ctx.settings.visibility
  job.visible_until = int(ctx.now + period)
  if job.beat then job.stalled_at = int(ctx.now + tonumber(job.beat)) end
  gather('ZADD', job_module.LEASES, int(lease_deadline(job)), job.id)
  job_save(job)
  emit('job.heartbeat', job, '"attempt":' .. job.attempt .. ',"visible_until":' .. stamp(job.visible_until))
end

local function run()
  local worker, reported, visibility, testing, tenant, field_count = unpack(ctx.args, 9, 14)
  visibility = tonumber(visibility)
  if reported == '' then reported = 'running' end
  local key, first_job = ctx.prefix .. 'worker:' .. worker, FIRST_FIELD + tonumber(field_count) * 2
  local record, fields = {'seen', ctx.now, 'state', reported}, {}
  for at = FIRST_FIELD, first_job - 1, 2 do
    local name, value = unpack(ctx.args, at, at + 1)
    fields[name] = value
    if name ~= 'registers' then
      record[#record + 1] = name
      record[#record + 1] = value
    end
  end

  local pool = match(fields.pool or '', '^"(.*)"$')
  if find(ctx.state.policy, 'p', 1, true) then
    local other = join_pool(worker, key, pool, fields)
    if other then return {'pool', other} end
  end
  if fields.registers and not fields.how then call('HDEL', key, 'how', 'strategy', 'weights') end
  if (pool or fields.concurrency or fields.how) and not ctx.state.gated then call('HSET', ctx.prefix .. 'state', 'gated', '1') end
  local directive = call('HGET', key, 'directive') or 'running'
  if call('EXISTS', key) == 0 then
    record[#record + 1] = 'since'
    record[#record + 1] = ctx.now
    emit('worker.started', subject(worker))
  end
  call('HSET', key, unpack(record))
  call('ZADD', ctx.prefix .. 'workers', ctx.now, worker)
  set_halted(worker, reported ~= 'running' or directive ~= 'running')

  local extended, cancelled = {}, {}
  for at = first_job, #ctx.args do
    local id = ctx.args[at]
    local job = job_load(id, tenant)
    if job and job.state == 'active' and (job.worker == '' or job.worker == worker) then
      extend_lease(job, visibility)
      extended[#extended + 1] = id
      local requested = testing == '1' and job.directive
      if requested and (RANK[requested] or 0) > RANK[directive] then directive = requested end
    elseif job and job.state == 'cancelled' then
      cancelled[#cancelled + 1] = id
    end
  end
  commit()
  return {directive, ctx.now, extended, cancelled}
end

return run
