-- Compares counts with the records that they count, in portions, and repairs differences on
-- request.
--
-- `leases` defines which jobs run. Each item is compared within one call, so concurrent changes
-- never look like differences.
--
-- Takes
--   what     string   `leases`, `limits`, `pools`, `queues` or `tenants`
--   cursor   string   '0', or the cursor that the last call returned
--   repairs  boolean  true to repair what differs
--   most     number   jobs that one call may count: active jobs of queues and jobs of tenants are
--            not compared if there are more
--
-- Returns
--   cursor       string  next cursor, or '0' at the end
--   compared     number
--   differences  list of {what: string, name: string, counted: number, real: number}

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_counts = require('tenants/job_counts')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local headcount = require('tenants/headcount')
local worker_jobs = require('queue/worker_jobs')
local runtime = require('lib/runtime')

local commit, int = runtime.commit, runtime.int
local count_tenant, tenant_jobs = job_counts.count_tenant, job_counts.tenant_jobs
local is_tenant_limit, lane_limits = lane_module.is_tenant_limit, lane_module.limits
local job_load = job_module.load
local staged_of = headcount.staged_of
local call = redis.call
local find, format, match = string.find, string.format, string.match

local PORTION = 200

local is_repair, most -- arguments
local compared, differences

-- Compares a count with the number of records. Reports a difference, and calls `repair` if repairs
-- are on.
local function compare(kind, name, counted, real, repair)
  compared = compared + 1
  if counted == real then return end
  differences[#differences + 1] = {what = kind, name = name, counted = counted, real = real}
  if is_repair then repair() end
end

-- Returns the sets of slots that must contain the lease of a job.
local function sets_of(job)
  local sets = {}
  for _, key in ipairs(lane_limits(job.queue, job.lane)) do
    if not is_tenant_limit(key) then sets[#sets + 1] = ctx.prefix .. 'limit:' .. key .. ':run' end
  end
  if job.pool ~= '' then sets[#sets + 1] = ctx.prefix .. 'pool:' .. job.pool .. ':run' end
  return sets
end

local function check_lease(id)
  local job = job_load(id)
  local is_active = job and job.state == 'active'
  compare('lease', id, 1, is_active and 1 or 0, function() call('ZREM', job_module.LEASES, id) end)
  if not is_active then return end
  for _, set in ipairs(sets_of(job)) do
    compare('slot', set .. ' ' .. id, call('SISMEMBER', set, id), 1, function() call('SADD', set, id) end)
  end
  if job.worker ~= '' then
    compare('worker', id, worker_jobs.has(job.worker, id) and 1 or 0, 1, function() worker_jobs.add(job.worker, id) end)
  end
end

-- Checks that each member of a set of slots is an active job that belongs there.
local function check_set(set, belongs)
  for _, id in ipairs(call('SRANDMEMBER', set, PORTION)) do
    local job = call('ZSCORE', job_module.LEASES, id) and job_load(id)
    local real = job and job.state == 'active' and belongs(job) and 1 or 0
    compare('slot', set .. ' ' .. id, 1, real, function() call('SREM', set, id) end)
  end
end

local function check_limit(key)
  local tenant, queue = match(key, '^%+(.*):([^:]*)$')
  check_set(ctx.prefix .. 'limit:' .. key .. ':run', function(job)
    if tenant and job.queue == queue and (job.tenant or '_default') == tenant then return true end
    for _, own in ipairs(lane_limits(job.queue, job.lane)) do
      if own == key then return true end
    end
  end)
end

local function check_queue(queue, active)
  local counts = ctx.prefix .. 'counts:' .. queue
  local counted = call('HMGET', counts, 'active', 'blocked')
  if active then
    local real = active[queue] or 0
    compare('active', queue, tonumber(counted[1] or nil) or 0, real, function() call('HSET', counts, 'active', int(real)) end)
  end
  if call('HLEN', ctx.prefix .. 'parked:' .. queue) > most then return end
  local blocked = 0
  for _, lane in ipairs(call('HKEYS', ctx.prefix .. 'parked:' .. queue)) do
    blocked = blocked + call('ZCARD', ctx.prefix .. 'lane:' .. queue .. ':' .. lane)
  end
  compare('blocked', queue, tonumber(counted[2] or nil) or 0, blocked, function() call('HSET', counts, 'blocked', int(blocked)) end)
end

-- Returns the number of active jobs by queue, or nil if they are too many to count in one call.
local function active_by_queue()
  if call('ZCARD', job_module.LEASES) > most then return nil end
  local active = {}
  for _, id in ipairs(call('ZRANGE', job_module.LEASES, 0, -1)) do
    local job = job_load(id)
    if job then active[job.queue] = (active[job.queue] or 0) + 1 end
  end
  return active
end

-- Returns all lanes of a queue that hold available jobs: ready ones, those of tenants that take
-- turns, and parked ones.
local function lanes_of(queue)
  local lanes = call('HKEYS', ctx.prefix .. 'parked:' .. queue)
  for _, entry in ipairs(call('ZRANGE', ctx.prefix .. 'ready:' .. queue, 0, -1)) do
    local level = match(entry, '^@(.*)$')
    local key = level and ctx.prefix .. 'level:' .. queue .. ':' .. level
    for _, tenant in ipairs(level and call('HKEYS', key .. ':busy') or {}) do
      for _, lane in ipairs(call('ZRANGE', key .. ':lanes:' .. tenant, 0, -1)) do lanes[#lanes + 1] = lane end
    end
    if not level then lanes[#lanes + 1] = entry end
  end
  return lanes
end

-- Returns active, scheduled, retryable and available jobs by tenant, or nil if they are too many
-- to count in one call. No index lists pending jobs; staged ones are counted by their lanes.
local function tenants_tally()
  local queues, available = call('HKEYS', ctx.prefix .. 'queues'), 0
  for _, queue in ipairs(queues) do available = available + (tonumber(call('HGET', ctx.prefix .. 'counts:' .. queue, 'available') or nil) or 0) end
  if available + call('ZCARD', job_module.LEASES) + call('ZCARD', job_module.DUE) + call('HLEN', ctx.prefix .. 'tenants') > most then return nil end
  local real = {}
  local function add(id, is_here)
    local job = job_load(id)
    local name = job and is_here[job.state] and (job.tenant or '_default')
    if name then
      real[name] = real[name] or {}
      real[name][job.state] = (real[name][job.state] or 0) + 1
    end
  end
  for _, id in ipairs(call('ZRANGE', job_module.LEASES, 0, -1)) do add(id, {active = true}) end
  for _, id in ipairs(call('ZRANGE', job_module.DUE, 0, -1)) do add(id, {scheduled = true, retryable = true}) end
  for _, queue in ipairs(queues) do
    for _, lane in ipairs(lanes_of(queue)) do
      for _, id in ipairs(call('ZRANGE', ctx.prefix .. 'lane:' .. queue .. ':' .. lane, 0, -1)) do add(id, {available = true}) end
    end
  end
  return real
end

local function check_tenant(name, real)
  local jobs = tenant_jobs(name)
  for _, state in ipairs({'active', 'available', 'scheduled', 'retryable'}) do
    local should = (real[state] or 0) + (state == 'available' and staged_of(name) or 0)
    compare('tenant', name .. ' ' .. state, jobs[state], should, function() count_tenant(name, state, should - jobs[state]) end)
  end
end

-- Checks that `*` is the sum of all tenants but the default one.
local function check_all()
  if is_repair then commit() end
  local sums, texts = {0, 0, 0, 0, 0}, call('HGETALL', ctx.prefix .. 'tenants')
  local all = '0 0 0 0 0'
  for position = 1, #texts, 2 do
    local name, place = texts[position], 0
    if name == '*' then
      all = texts[position + 1]
    elseif name ~= '_default' then
      for number in string.gmatch(texts[position + 1], '%d+') do
        place = place + 1
        sums[place] = sums[place] + tonumber(number)
      end
    end
  end
  local should = format('%d %d %d %d %d', unpack(sums))
  compare('tenant', '*', all == should and 1 or 0, 1, function() call('HSET', ctx.prefix .. 'tenants', '*', should) end)
end

local function check_tenants()
  local real = tenants_tally()
  if not real then return end
  for _, name in ipairs(call('HKEYS', ctx.prefix .. 'tenants')) do
    if name ~= '*' then real[name] = real[name] or {} end
  end
  if not find(ctx.tenant_limits, 'd', 1, true) then real._default = nil end
  local names = {}
  for name in pairs(real) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do check_tenant(name, real[name]) end
  check_all()
end

local function run()
  local args = packed.read()
  local what = args.what
  is_repair, most, compared, differences = args.repairs, args.most, 0, {}
  -- Leases and due jobs are being shifted: `lib/clock_step`.
  if ctx.state.step then return packed.write({cursor = '0', compared = 0, differences = differences}) end

  local next_cursor = '0'
  if what == 'leases' or what == 'limits' then
    local set = what == 'leases' and job_module.LEASES or ctx.prefix .. 'limits'
    local found = call('ZSCAN', set, args.cursor, 'COUNT', PORTION)
    next_cursor = found[1]
    for position = 1, #found[2], 2 do
      local check = what == 'leases' and check_lease or check_limit
      check(found[2][position])
    end
  elseif what == 'pools' then
    for _, name in ipairs(call('SMEMBERS', ctx.prefix .. 'pools')) do
      check_set(ctx.prefix .. 'pool:' .. name .. ':run', function(job) return job.pool == name end)
    end
  elseif what == 'tenants' then
    check_tenants()
  else
    local active = active_by_queue()
    for _, queue in ipairs(call('HKEYS', ctx.prefix .. 'queues')) do check_queue(queue, active) end
  end
  if is_repair then commit() end
  return packed.write({cursor = next_cursor, compared = compared, differences = differences})
end

return run
