-- Part: lanes. A queue is a fair queue of lanes, and a job waits in exactly one of them.
--
-- lane:Q:L   zset  job ids by score, which orders by priority and then by sequence
-- ready:Q    zset  the lanes of queue Q that may run, by the score of their first job
--
-- A lane is in `ready` exactly while it holds jobs and nothing blocks it; whoever touches a lane's head keeps that true.

-- 2^45 sequences below each of the 201 priorities: exact in a double, so FIFO holds however fast jobs arrive.
local function lane_score(priority, sequence)
  return (100 - priority) * 35184372088832 + sequence
end

local function lane_key(queue, lane)
  return P .. 'lane:' .. queue .. ':' .. lane
end

local pushed, pushed_order = {}, {}

local function lane_push(queue, lane, id, score)
  local key = lane_key(queue, lane)
  local entry = pushed[key]
  if not entry then
    entry = {key = key, queue = queue, lane = lane, lowest = score, jobs = {}}
    pushed[key] = entry
    pushed_order[#pushed_order + 1] = entry
  end
  if score < entry.lowest then entry.lowest = score end
  local jobs = entry.jobs
  jobs[#jobs + 1] = score
  jobs[#jobs + 1] = id
end

-- Jobs of one call that go into the same lane cost one command, not one each.
local function lane_flush()
  for _, entry in ipairs(pushed_order) do
    -- In portions, because Lua's stack holds 8,000 values.
    for first = 1, #entry.jobs, 4000 do
      call('ZADD', entry.key, unpack(entry.jobs, first, math.min(first + 3999, #entry.jobs)))
    end
    call('ZADD', P .. 'ready:' .. entry.queue, 'LT', entry.lowest, entry.lane)
  end
  pushed, pushed_order = {}, {}
end
at_commit[#at_commit + 1] = lane_flush

local function lane_refresh(queue, lane, head)
  if head then
    call('ZADD', P .. 'ready:' .. queue, head, lane)
  else
    call('ZREM', P .. 'ready:' .. queue, lane)
  end
end

-- Takes up to `want` job ids from the front of the queue: highest priority, then lowest sequence, over all ready lanes.
local function lane_take(queue, want)
  lane_flush()
  local taken = {}
  while #taken < want do
    local lanes = call('ZRANGE', P .. 'ready:' .. queue, 0, 1, 'WITHSCORES')
    if #lanes == 0 then break end
    local lane, rival = lanes[1], tonumber(lanes[4])
    local key = lane_key(queue, lane)
    -- One more than wanted: the one left over is the lane's new head.
    local heads = call('ZRANGE', key, 0, want - #taken, 'WITHSCORES')
    local moved, position = 0, 1
    while heads[position] and #taken < want and (not rival or moved == 0 or tonumber(heads[position + 1]) < rival) do
      taken[#taken + 1] = heads[position]
      moved, position = moved + 1, position + 2
    end
    if moved > 0 then call('ZREMRANGEBYRANK', key, 0, moved - 1) end
    lane_refresh(queue, lane, heads[position + 1])
  end
  return taken
end

local function lane_remove(queue, lane, id)
  lane_flush()
  local key = lane_key(queue, lane)
  call('ZREM', key, id)
  lane_refresh(queue, lane, call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end
