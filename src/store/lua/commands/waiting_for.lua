-- Returns what a waiting job waits for. Read-only.
--
-- ARGV[9…]
--   id      job
--   tenant  the only tenant visible to the caller, or '' for all
--
-- Returns  {} if it waits only for a worker, or does not wait; else one of:
--   staged            rule, tenant, queue
--   activation
--   scheduled, retry  ms
--   put_off           ms, key of its limit or ''
--   paused            queue, time of the pause
--   limit             key, strategy, time since when it blocks or ''

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local quota = require('limits/quota')

local lane_base = lane_module.base
local is_limited, job_load, marked = job_module.is_limited, job_module.load, job_module.marked
local limit_open, limit_room = quota.limit_open, quota.limit_room
local call = redis.call
local match = string.match

-- Returns the lane of an available job. Its suffix depends on the settings at the time it was
-- enqueued.
local function lane_of(job)
  local tenant, base = '=' .. (job.tenant or '_default'), lane_base(job.lane)
  for _, suffix in ipairs({'', ';t' .. tenant, ';s=1;t' .. tenant, ';b' .. tenant}) do
    if call('ZSCORE', ctx.prefix .. 'lane:' .. job.queue .. ':' .. base .. suffix, job.id) then return base .. suffix end
  end
end

-- Describes a limit that blocks the job: its strategy, and since when it has blocked without a
-- break.
local function stopped_by(limit)
  local strategy, periods = match(limit.stored.held or '', '^(%S+) (.*)$')
  return {'limit', limit.key, strategy or 'concurrency', match(periods or '', '(%d+)%-;$') or limit.stored.since or ''}
end

local function available(job)
  local since = ctx.state.paused and call('HGET', ctx.prefix .. 'paused', job.queue)
  if since then return {'paused', job.queue, since} end
  local lane = lane_of(job)
  local key = lane and call('HGET', ctx.prefix .. 'parked:' .. job.queue, lane)
  if key then return stopped_by(limit_open(key)) end
  local limit = is_limited(job.queue) and limit_open('#' .. job.queue)
  return limit and limit_room(limit) <= 0 and stopped_by(limit) or {}
end

local function run()
  local id, tenant = unpack(ctx.args, 9, 10)
  local job = job_load(id, tenant)
  if not job then return {} end
  if marked(job, 's') then return {'staged', job.rule or '', job.tenant or '_default', job.queue} end
  if job.state == 'available' then return available(job) end
  if job.state == 'pending' then return {'activation'} end
  if job.state == 'retryable' then return {'retry', job.next_retry} end
  if job.state ~= 'scheduled' then return {} end
  if not marked(job, 'l') then return {'scheduled', job.due or ''} end
  return {'put_off', job.due or '', job.put_off and match(job.put_off, '^%d+ %S+ (.*)$') or ''}
end

return run
