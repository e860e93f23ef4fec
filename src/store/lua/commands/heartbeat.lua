-- Processes a heartbeat: updates the worker's record, extends the leases it names, and returns a
-- directive.
--
-- Takes
--   worker      string   worker
--   state       string?  state that it reports
--   visibility  number?  new visibility timeout in ms
--   testing     boolean  true to obey test directives of jobs
--   tenant      string   the only tenant visible to the caller, or '' for all
--   registers   boolean  true for a registration, which may change the worker's pool
--   how         string?  the worker's strategy: `strategy queue weight …`, weights in thousandths
--   fields      map of string to string  fields of the worker's record, as JSON
--   jobs        list of string  ids of the jobs that it works on
--
-- Returns  {other_pool: string} if the worker belongs to another pool, or {accepted: …} with
--   directive    string
--   server_time  number
--   extended     list of string  ids of jobs whose leases were extended
--   cancelled    list of string  ids of jobs that were cancelled

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local worker_jobs = require('queue/worker_jobs')
local worker_module = require('dispatch/worker')
local runtime = require('lib/runtime')

local commit, emit, gather, int, stamp = runtime.commit, runtime.emit, runtime.gather, runtime.int, runtime.stamp
local subject = runtime.subject
local job_load, job_save, lease_deadline = job_module.load, job_module.save, job_module.lease_deadline
local set_halted = worker_module.set_halted
local call = redis.call
local find, match = string.find, string.match

local RANK = {running = 0, quiet = 1, terminate = 2}

-- Puts a worker into its pool. Returns the name of its pool if it may not move to `pool`, else nil.
--
-- A worker belongs to one pool. It can move to another one by registering again, unless it still
-- holds jobs. A pool that no longer exists does not count.
local function join_pool(worker, key, pool, changes)
  local member = ctx.prefix .. 'member:' .. worker
  local own = match(call('HGET', key, 'pool') or '', '^"(.*)"$') or call('GET', member)
  if own and call('EXISTS', ctx.prefix .. 'pool:' .. own) == 0 then own = nil end
  local leaves = changes and own and own ~= pool
  if own and pool and own ~= pool and (not leaves or worker_jobs.count(worker) > 0) then return own end
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
  local args = packed.read()
  local worker, fields, reported = args.worker, args.fields, args.state or 'running'
  local key = ctx.prefix .. 'worker:' .. worker
  local record = {'seen', ctx.now_text, 'state', reported}
  for name, value in pairs(fields) do
    record[#record + 1] = name
    record[#record + 1] = value
  end
  if args.how then
    record[#record + 1] = 'how'
    record[#record + 1] = args.how
  end

  local pool = match(fields.pool or '', '^"(.*)"$')
  if find(ctx.state.policy, 'p', 1, true) then
    local other = join_pool(worker, key, pool, args.registers and fields.pool)
    if other then return packed.write({other_pool = other}) end
  end
  if args.registers and not args.how then call('HDEL', key, 'how', 'strategy', 'weights') end
  if (pool or fields.concurrency or args.how) and not ctx.state.gated then call('HSET', ctx.prefix .. 'state', 'gated', '1') end
  local directive = call('HGET', key, 'directive') or 'running'
  if call('EXISTS', key) == 0 then
    record[#record + 1] = 'since'
    record[#record + 1] = ctx.now_text
    emit('worker.started', subject(worker))
  end
  call('HSET', key, unpack(record))
  call('ZADD', ctx.prefix .. 'workers', ctx.now_text, worker)
  set_halted(worker, reported ~= 'running' or directive ~= 'running')

  local extended, cancelled = {}, {}
  for _, id in ipairs(args.jobs) do
    local job = job_load(id, args.tenant)
    if job and job.state == 'active' and (job.worker == '' or job.worker == worker) then
      extend_lease(job, args.visibility)
      extended[#extended + 1] = id
      local requested = args.testing and job.directive
      if requested and (RANK[requested] or 0) > RANK[directive] then directive = requested end
    elseif job and job.state == 'cancelled' then
      cancelled[#cancelled + 1] = id
    end
  end
  commit()
  return packed.write({accepted = {directive = directive, server_time = ctx.now, extended = extended, cancelled = cancelled}})
end

return run
