-- Part: taking jobs out of lanes.

local function lane_refresh(queue, lane, head)
  if head then
    call('ZADD', P .. 'ready:' .. queue, head, lane)
  else
    call('ZREM', P .. 'ready:' .. queue, lane)
  end
end

-- Takes up to `want` jobs from the front of the queue: highest priority, then lowest sequence, over all ready lanes.
-- Returns {id, score, lane, id, score, lane, …}.
local function lane_take(queue, want)
  lane_flush()
  local taken, found = {}, 0
  while found < want do
    local lanes = call('ZRANGE', P .. 'ready:' .. queue, 0, 1, 'WITHSCORES')
    if #lanes == 0 then break end
    local lane, rival = lanes[1], tonumber(lanes[4])
    local key = P .. 'lane:' .. queue .. ':' .. lane
    -- One more than wanted: the one left over is the lane's new head.
    local first = call('ZRANGE', key, 0, want - found, 'WITHSCORES')
    local moved, position = 0, 1
    while first[position] and found < want and (not rival or moved == 0 or tonumber(first[position + 1]) < rival) do
      local at = found * 3
      taken[at + 1], taken[at + 2], taken[at + 3] = first[position], first[position + 1], lane
      found, moved, position = found + 1, moved + 1, position + 2
    end
    if moved > 0 then call('ZREMRANGEBYRANK', key, 0, moved - 1) end
    lane_refresh(queue, lane, first[position + 1])
  end
  return taken
end

local function lane_remove(queue, lane, id)
  lane_flush()
  local key = P .. 'lane:' .. queue .. ':' .. lane
  call('ZREM', key, id)
  lane_refresh(queue, lane, call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end
