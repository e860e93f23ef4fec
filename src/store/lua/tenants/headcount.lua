-- Staged jobs of tenants, which `tenants` counts as available, and jobs of the default tenant,
-- which is not always counted.

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local runtime = require('lib/runtime')

local on_begin = runtime.on_begin
local tenant_jobs = job_counts.tenant_jobs
local call = redis.call
local format = string.format

local keys, bases

on_begin(function()
  keys, bases = nil, nil
end)

-- Reads the keys of fair queues with staged jobs, and the bases, of which the hash counts all
-- priorities: `staging/fair_queues`.
local function read_keys()
  if keys then return end
  keys, bases = {}, {}
  for _, rule in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    for _, queue in ipairs(call('ZRANGE', ctx.prefix .. 'plan:' .. rule .. ':queues', 0, -1)) do
      local base = ctx.prefix .. 'fair:' .. rule .. ':' .. queue
      keys[#keys + 1], bases[#bases + 1] = base, base
      for priority in string.gmatch(call('HGET', base, 'levels') or '', '%S+') do keys[#keys + 1] = base .. ':p' .. priority end
    end
  end
end

-- Returns the number of a tenant's staged jobs; `*` is the sum of all tenants but the default one.
local function staged_of(name)
  read_keys()
  local jobs, all = 0, 0
  for _, key in ipairs(keys) do jobs = jobs + call('ZCARD', key .. ':lane:' .. (name == '*' and '_default' or name)) end
  if name ~= '*' then return jobs end
  for _, key in ipairs(bases) do all = all + (tonumber(call('HGET', key, 'jobs') or nil) or 0) end
  return all - jobs
end

local STATES = {'pending', 'available', 'scheduled', 'retryable', 'active'}

-- Returns the jobs of the default tenant by state, in the order of `tenants`: the counts of the
-- queues minus the jobs of all other tenants.
local function default_jobs(queues)
  local all = {0, 0, 0, 0, 0}
  for _, queue in ipairs(queues) do
    local counted = call('HMGET', ctx.prefix .. 'counts:' .. queue, unpack(STATES))
    for place = 1, 5 do all[place] = all[place] + (tonumber(counted[place] or nil) or 0) end
  end
  local staged = staged_of('*') + staged_of('_default')
  all[1], all[2] = all[1] - staged, all[2] + staged
  local others = tenant_jobs('*')
  for place, name in ipairs(STATES) do all[place] = math.max(all[place] - others[name], 0) end
  return all
end

-- Starts to count the default tenant's jobs. The caller adds the letter d to `state.tenants`.
local function start_counting_default()
  local all = default_jobs(call('HKEYS', ctx.prefix .. 'queues'))
  if all[1] + all[2] + all[3] + all[4] + all[5] > 0 then
    call('HSET', ctx.prefix .. 'tenants', '_default', format('%d %d %d %d %d', unpack(all)))
  end
end

return {start_counting_default = start_counting_default, default_jobs = default_jobs, staged_of = staged_of}
