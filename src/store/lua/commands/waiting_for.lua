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

local packed = require('lib/packed')
local job_module = require('queue/job')
local obstacles = require('dispatch/obstacles')

local job_load, marked = job_module.load, job_module.marked
local first_blocking, lane_of, paused_since = obstacles.first_blocking, obstacles.lane_of, obstacles.paused_since
local match = string.match

local function available(job)
  local since = paused_since(job.queue)
  if since then return {paused = {queue = job.queue, since = since}} end
  local lane = lane_of(job)
  local state = lane and first_blocking(job.queue, lane)
  return state and {limit = {key = state.limit.key, strategy = state.strategy, since = state.since}} or nil
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
