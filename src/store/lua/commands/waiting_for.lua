-- Returns what a waiting job waits for. Read-only.
--
-- Takes
--   id      string  job
--   tenant  string  the only tenant visible to the caller, or '' for all
--
-- Returns  nil if it waits only for a worker, or does not wait; else one of
--   staged      {rule: string, tenant: string, queue: string}
--   activation
--   scheduled   {at: number?}
--   retry       {at: number?}
--   put_off     {at: number?, key: string?}  key of its limit
--   paused      {queue: string, since: number}
--   limit       {key: string, strategy: string, since: number?}  since when it blocks

local ctx = require('lib/context')
local packed = require('lib/packed')
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
  local since = tonumber(match(periods or '', '(%d+)%-;$') or limit.stored.since)
  return {limit = {key = limit.key, strategy = strategy or 'concurrency', since = since}}
end

local function available(job)
  local since = ctx.state.paused and call('HGET', ctx.prefix .. 'paused', job.queue)
  if since then return {paused = {queue = job.queue, since = tonumber(since)}} end
  local lane = lane_of(job)
  local key = lane and call('HGET', ctx.prefix .. 'parked:' .. job.queue, lane)
  if key then return stopped_by(limit_open(key)) end
  local limit = is_limited(job.queue) and limit_open('#' .. job.queue)
  return limit and limit_room(limit) <= 0 and stopped_by(limit) or nil
end

local function reason(id, tenant)
  local job = job_load(id, tenant)
  if not job then return nil end
  if marked(job, 's') then return {staged = {rule = job.rule or '', tenant = job.tenant or '_default', queue = job.queue}} end
  if job.state == 'available' then return available(job) end
  if job.state == 'pending' then return 'activation' end
  if job.state == 'retryable' then return {retry = {at = tonumber(job.next_retry)}} end
  if job.state ~= 'scheduled' then return nil end
  if not marked(job, 'l') then return {scheduled = {at = tonumber(job.due)}} end
  return {put_off = {at = tonumber(job.due), key = job.put_off and match(job.put_off, '^%d+ %S+ (.*)$')}}
end

local function run()
  local args = packed.read()
  return packed.write(reason(args.id, args.tenant))
end

return run
