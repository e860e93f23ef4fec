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

local heads = {} -- lowest score pushed by this call, by queue and lane

local function lane_push(queue, lane, id, score)
  gather('ZADD', P .. 'lane:' .. queue .. ':' .. lane, score, id)
  local of_queue = heads[queue]
  if not of_queue then
    of_queue = {}
    heads[queue] = of_queue
  end
  if not of_queue[lane] or score < of_queue[lane] then of_queue[lane] = score end
end

-- Makes pushes visible; lanes that got a new head move in `ready`.
local function lane_flush()
  flush()
  for queue, lanes in pairs(heads) do
    for lane, score in pairs(lanes) do call('ZADD', P .. 'ready:' .. queue, 'LT', score, lane) end
  end
  heads = {}
end
at_commit[#at_commit + 1] = lane_flush
