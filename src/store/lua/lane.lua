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

-- Keys of the lanes of a queue that may run: at most one for each of the 201 priorities.
local function lane_keys(queue)
  local lanes = call('ZRANGE', P .. 'ready:' .. queue, '0', '200')
  for position, lane in ipairs(lanes) do lanes[position] = P .. 'lane:' .. queue .. ':' .. lane end
  return lanes
end

local pushed = {} -- lanes that this call pushed to, by queue and name: their key and the lowest score

local function lane_push(queue, lane, id, score)
  local of_queue = pushed[queue]
  if not of_queue then
    of_queue = {}
    pushed[queue] = of_queue
  end
  local entry = of_queue[lane]
  if not entry then
    entry = {key = P .. 'lane:' .. queue .. ':' .. lane, lowest = score}
    of_queue[lane] = entry
  elseif score < entry.lowest then
    entry.lowest = score
  end
  gather('ZADD', entry.key, score, id)
end

-- Makes pushes visible; lanes that got a new head move in `ready`.
local function lane_flush()
  flush()
  for queue, lanes in pairs(pushed) do
    for lane, entry in pairs(lanes) do call('ZADD', P .. 'ready:' .. queue, 'LT', int(entry.lowest), lane) end
  end
  pushed = {}
end
at_commit[#at_commit + 1] = lane_flush
