-- Shifts stored times after the clock was set back, so that a lease, a retry or a delay lasts as
-- long as it would have without the step. Times that a client named are times of day and do not
-- change.
--
-- state.step       ms by which the clock was set back, until all entries are shifted
-- SET:before_step  the entries of SET at the time of the step; `lib/clock_step` renames the sets

local ctx = require('lib/context')
local clock_step = require('lib/clock_step')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local emit, gather, guarded, int = runtime.emit, runtime.gather, runtime.guarded, runtime.int
local subject = runtime.subject
local job_load, job_save, job_set, job_wait = job_module.load, job_module.save, job_module.set, job_module.wait
local lease_deadline, marked = job_module.lease_deadline, job_module.marked
local call = redis.call

local function shift_field(job, name)
  if job[name] ~= '' then job[name] = int(job[name] - ctx.state.step) end
end

local function shift_fixed_field(job, name)
  if job[name] then job_set(job, name, int(job[name] - ctx.state.step)) end
end

local shift = {}

-- A lease that is also in `leases` was taken or extended after the step, so it is not shifted.
shift.leases = function(id)
  local job = job_load(id)
  if not job or job.state ~= 'active' or call('ZSCORE', job_module.LEASES, id) then return end
  shift_field(job, 'started')
  shift_field(job, 'visible_until')
  shift_field(job, 'stalled_at')
  shift_fixed_field(job, 'total')
  gather('ZADD', job_module.LEASES, int(lease_deadline(job)), id)
  job_save(job)
end

shift.due = function(id)
  local job = job_load(id)
  if not job or job.state == 'active' or job.finished ~= '' or call('ZSCORE', job_module.DUE, id) then return end
  if job.state == 'retryable' then shift_field(job, 'next_retry') end
  if job.delayed or marked(job, 'l') then shift_fixed_field(job, 'due') end
  shift_fixed_field(job, 'ttl')
  shift_fixed_field(job, 'total')
  local at = job.state == 'retryable' and job.next_retry or job.state == 'scheduled' and job.due or nil
  job_wait(job, at)
  job_save(job)
end

-- Checking a limit too early is harmless.
shift.wakes = function(key)
  call('ZADD', job_module.WAKES, 'LT', ctx.now_text, key)
end

shift.deliveries = function(id, at)
  call('ZADD', ctx.prefix .. 'deliveries', 'NX', int(at - ctx.state.step), id)
end

-- Moves scores that lie in the future to the present: no worker reported, and no queue was served,
-- at a time that is yet to come.
local function clamp(set, limit)
  local ahead = call('ZRANGEBYSCORE', ctx.prefix .. set, '(' .. ctx.now_text, '+inf', 'LIMIT', 0, limit)
  for _, member in ipairs(ahead) do call('ZADD', ctx.prefix .. set, ctx.now_text, member) end
  return #ahead
end

-- Shifts up to `limit` entries of each set. Returns the largest number handled in one set; 0 means
-- that the work is done.
local function shift_times(limit)
  if not ctx.state.step then return 0 end
  local handled = math.max(clamp('workers', limit), clamp('live', limit))
  for _, set in ipairs(clock_step.sets) do
    local entries = call('ZPOPMIN', ctx.prefix .. set .. clock_step.aside, limit)
    for position = 1, #entries, 2 do
      if guarded(shift[set], entries[position], entries[position + 1]) then
        emit('store.error', subject(entries[position]), '"set":"' .. set .. '"')
      end
    end
    handled = math.max(handled, #entries / 2)
  end
  if handled == 0 then call('HDEL', ctx.prefix .. 'state', 'step') end
  return handled
end

return {shift_times = shift_times}
