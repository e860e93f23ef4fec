-- Finds the place of an available job in its queue. Read-only.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local lanes_module = require('limits/lanes')
local level_module = require('fairness/level')
local rivals = require('fairness/rivals')

local LEVEL = lane_module.LEVEL
local lane_level, lane_tenant = lanes_module.lane_level, lanes_module.lane_tenant
local level_lanes, level_open = level_module.lanes, level_module.open
local call = redis.call
local match = string.match

-- Most lanes that are read of a queue and of a tenant, which bounds the time of a call.
local MOST_LANES, MOST_OF_TENANT = 256, 8

local function lane_key(queue, lane)
  return ctx.prefix .. 'lane:' .. queue .. ':' .. lane
end

-- Returns the number of jobs in lanes with a score below `score`; all jobs if there is none.
local function jobs_in(queue, lanes, score)
  local jobs = 0
  for _, lane in ipairs(lanes) do
    local key = lane_key(queue, lane)
    jobs = jobs + (score and call('ZCOUNT', key, '-inf', '(' .. score) or call('ZCARD', key))
  end
  return jobs
end

-- Returns the number of jobs of a tenant in a level with a score below `score`, if there is one.
local function jobs_of_tenant(fair, tenant, score)
  return jobs_in(fair.queue, call('ZRANGE', level_lanes(fair, tenant), 0, MOST_OF_TENANT - 1), score)
end

-- Returns the number of jobs of at most `most` tenants of a level, and the number of tenants read.
local function jobs_of_level(queue, level, most)
  local fair, jobs, read = level_open(queue, level), 0, 0
  for _, class in ipairs(fair.classes.names) do
    local tenants = most > read and call('ZRANGE', fair.key .. ':c:' .. class, 0, most - read - 1) or {}
    for _, tenant in ipairs(tenants) do jobs = jobs + jobs_of_tenant(fair, tenant) end
    read = read + #tenants
  end
  return jobs, read, read >= fair.n
end

-- Returns the jobs that wait for the same limit in lanes of the queue and are before the job.
local function jobs_under(queue, key, lane, score)
  local jobs = 0
  for _, other in ipairs(call('ZRANGE', ctx.prefix .. 'wait:' .. key .. ':' .. queue, 0, MOST_LANES - 1)) do
    if other ~= lane then jobs = jobs + jobs_in(queue, {other}, score) end
  end
  return jobs
end

-- Returns, for a job in a lane and the limit that the lane waits for, if there is one:
--   in_lane    number   jobs before it in its lane
--   ahead      number   jobs of other lanes that are ready and before it, without those of tenants
--              that take turns at its priority
--   is_counted boolean  false if there are more lanes than one call counts
--   turn       {of_tenant: number, turn: …}?  its tenant's turn, if tenants take turns
--              (`fairness/rivals`), and the jobs of its tenant before it
--   waiting    number?  jobs before it in other lanes that wait for the same limit
local function place_of(job, lane, parked)
  local queue, own_level, tenant = job.queue, lane_level(lane), lane_tenant(lane)
  local score = call('ZSCORE', lane_key(queue, lane), job.id)
  local ready = call('ZRANGE', ctx.prefix .. 'ready:' .. queue, 0, MOST_LANES - 1, 'WITHSCORES')
  local place = {in_lane = call('ZCOUNT', lane_key(queue, lane), '-inf', '(' .. score), ahead = 0, is_counted = #ready < MOST_LANES * 2}
  local own_priority, most = math.floor(tonumber(score) / LEVEL), MOST_LANES
  for position = 1, #ready, 2 do
    local name, level = ready[position], match(ready[position], '^@(.*)$')
    local priority = math.floor(tonumber(ready[position + 1]) / LEVEL)
    if priority > own_priority then break end
    if level and priority < own_priority then
      local jobs, read, is_whole = jobs_of_level(queue, level, most)
      place.ahead, place.is_counted, most = place.ahead + jobs, place.is_counted and is_whole, most - read
    elseif not level and name ~= lane and not (tenant and priority == own_priority) then
      place.ahead = place.ahead + jobs_in(queue, {name}, score)
    end
  end
  if tenant then
    local fair = level_open(queue, own_level)
    place.turn = {of_tenant = jobs_of_tenant(fair, tenant, score),
      turn = rivals.describe(fair, tenant, function(name) return jobs_of_tenant(fair, name) end)}
    if parked then place.turn.of_tenant = place.turn.of_tenant + place.in_lane end
  end
  if parked then place.waiting = jobs_under(queue, parked, lane, score) end
  return place
end

return {of = place_of}
