-- Makes promoted jobs available in our own queues.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local level = require('fairness/level')
local stage = require('staging/stage')
local runtime = require('lib/runtime')

local on_begin, count, int, remembering = runtime.on_begin, runtime.count, runtime.int, runtime.remembering
local send = runtime.send
local lane_score, queue_woke = lane_module.score, lane_module.queue_woke
local job_load, marked = job_module.load, job_module.marked
local queue_sharing = level.queue_sharing
local job_release = stage.job_release
local call = redis.call
local find, format, match = string.find, string.format, string.match

-- A staged job that has not run yet, waits for nothing else and has no fields but the plan's: when it was created, where what does not
-- change begins, its type and its lane. Of the queue that is being promoted into, whose name is put in place of the `%s`.
local PLAIN = '^pending\0310\31%%d*\31(%%d*)\31+s\30()%s\31([^\31]*)\31(p%%-?%%d+)\31rule\31[^\31]*\31tenant\31[^\31]*\31\30'

local lanes, records, moved, plain, after_creation, before_tenant

on_begin(function()
  lanes, records, moved, plain = {}, {}, 0, nil
  after_creation = '\31' .. ctx.now_text .. '\31\31\31\31\31\31\31\31\31\31\31\31\30'
end)

local plain_of = remembering(1000, function(queue)
  return format(PLAIN, (string.gsub(queue, '%p', '%%%0')))
end)

-- What is the same for all jobs of a queue. Where promoted jobs take turns by tenant, or tenants or types may have a limit, no job is
-- plain.
local function release_begin(queue)
  local sharing = queue_sharing(queue)
  local is_shared = sharing and not sharing.by_isolation
  plain = (is_shared or find(ctx.allowed, 'c', 1, true) or find(ctx.state.policy, 't', 1, true)) and '^$' or plain_of(queue)
  before_tenant = '\31' .. queue .. '\31\28'
end

-- Makes a staged job available; false if there is none. Most jobs have nothing but their place changed, without a table of
-- all their fields; the others go the way of all jobs.
local function release(queue, id, tenant)
  if not plain then release_begin(queue) end
  local key = ctx.prefix .. 'job:' .. id
  local text = call('GET', key)
  if not text then return false end
  local created, rest, kind, lane = match(text, plain)
  if not created then
    local job = job_load(id)
    if not marked(job, 's') then return false end
    job_release(job)
    return true
  end
  ctx.seq = ctx.seq + 1
  moved = moved + 1
  text = 'available\0310\31' .. int(ctx.seq) .. '\31' .. created .. after_creation .. string.sub(text, rest)
  if moved == 1 then
    -- At once: a full Redis refuses a script at this write, if nothing was written before it, and then promotes nothing.
    call('SET', key, text)
  else
    local size = #records
    records[size + 1], records[size + 2] = key, text
  end
  local pushes, score = lanes[lane], int(lane_score(0, ctx.seq))
  if not pushes then
    pushes = {lowest = score}
    lanes[lane] = pushes
  end
  local size = #pushes
  pushes[size + 1], pushes[size + 2] = score, id
  ctx.log[#ctx.log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. before_tenant .. tenant .. '\31"state":"available"'
  return true
end

-- How long it is known whom jobs were promoted for.
local PROMOTED_MS = '600000'

-- Writes what `release` has gathered, of tenants that weigh so much together.
local function push_released(queue, weight)
  -- Where other tenants take turns, promoted jobs together have the share of theirs: see `fairness/level`.
  if ctx.state.levels then call('SET', ctx.prefix .. 'promoted:' .. queue, int(weight), 'PX', PROMOTED_MS) end
  for first = 1, #records, 4000 do call('MSET', unpack(records, first, math.min(first + 3999, #records))) end
  for lane, pushes in pairs(lanes) do
    send('ZADD', ctx.prefix .. 'lane:' .. queue .. ':' .. lane, pushes)
    if call('ZADD', ctx.prefix .. 'ready:' .. queue, 'LT', pushes.lowest, lane) == 1 then queue_woke(queue) end
  end
  if moved > 0 then
    count(queue, 'pending', -moved)
    count(queue, 'available', moved)
  end
end

-- Whether one call has released as much as it should.
local function is_full() return false end

return {is_full = is_full, push_released = push_released, release = release}
