-- Moves waiting jobs to the lane in which they belong after a change of settings: tenants that take
-- turns, limits of types, limits of tenants. A fetch moves them when it reaches them.
--
-- state.stale  the last sequence before the last such change. Jobs that came later are in the
--              right lane. For older ones, the record says where they belong; a fetch reads it
--              anyway, so a job that need not move costs nothing

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local remove = require('queue/remove')
local level = require('fairness/level')
local source_module = require('dispatch/source')
local stop = require('dispatch/stop')
local choose = require('dispatch/choose')
local job_module = require('queue/job')
local record = require('lib/record')
local runtime = require('lib/runtime')

local on_begin, int = runtime.on_begin, runtime.int
local LEVEL, lane_flush, lane_push = lane_module.LEVEL, lane_module.flush, lane_module.push
local lane_shrunk = remove.lane_shrunk
local change_lanes, pass_over = choose.change_lanes, choose.pass_over
local lane_fill = source_module.lane_fill
local job_load, job_save = job_module.load, job_module.save
local call = redis.call

local MOVED_A_CALL = 256
local stale, moved_now

on_begin(function()
  stale, moved_now = tonumber(ctx.state.stale) or 0, 0
end)

-- Returns the lane in which a waiting job belongs, given its record; the job's further fields; and
-- the lane that its record must name, if that differs.
local function record_lane(queue, text)
  local _, type, lane, fields = record.fixed(text)
  local own = level.type_lane(lane, type)
  return level.tenant_lane(queue, own, fields.tenant, fields.rule), fields, own ~= lane and own or nil
end

-- Pushes a job to the lane in which it belongs; returns false if it is already there. The caller
-- removes it from its old lane.
local function move(queue, lane, id, score, text)
  if score % LEVEL > stale then return false end
  local target, fields, recorded = record_lane(queue, text)
  if target == lane then return false end
  local entry = lane_push(queue, target, id, score)
  entry.rule, entry.quota = fields.rule, fields.quota or entry.quota
  -- The lane in the record determines the limits that a lease counts against.
  if recorded then
    local job = job_load(id, nil, text)
    job.lane = recorded
    job_save(job)
  end
  moved_now = moved_now + 1
  return true
end

-- Moves jobs at the front of a lane that belong elsewhere, up to the bound per call.
local function lane_sort(source, lane)
  local queue, name, key = source.queue, lane.name, lane.key
  local last = lane.start - lane.start % LEVEL + stale
  local found = call('ZRANGEBYSCORE', key, '-inf', int(last), 'WITHSCORES', 'LIMIT', '0', int(MOVED_A_CALL - moved_now))
  local keys, gone = {}, {}
  for place = 1, #found, 2 do keys[#keys + 1] = ctx.prefix .. 'job:' .. found[place] end
  for place, text in ipairs(call('MGET', unpack(keys))) do
    local id, score = found[place * 2 - 1], tonumber(found[place * 2])
    if text and move(queue, name, id, score, text) then gone[#gone + 1] = id end
  end
  call('ZREM', key, unpack(gone))
  lane_flush()
  lane_shrunk(queue, name, key, #gone)
end

-- Returns true if the first job of a lane belongs there. Otherwise moves it, or skips the lane if
-- this call has moved enough, and returns false.
local function ensure_lane(source, lane)
  if lane.start % LEVEL > stale or not lane_fill(lane, source.want) then return true end
  local id = lane.ids[lane.at]
  local text = call('GET', ctx.prefix .. 'job:' .. id)
  lane.record_of, lane.record = id, text
  if not text or record_lane(source.queue, text) == lane.name then return true end
  if moved_now < MOVED_A_CALL then
    change_lanes(source, function() lane_sort(source, lane) end)
  else -- other lanes are served meanwhile
    stop.unfinished = true
    pass_over(source, lane)
  end
  return false
end

return {move = move, ensure_lane = ensure_lane}
