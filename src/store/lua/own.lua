-- Part: makes promoted jobs available in our own queues.

local release, push_released, is_full

do -- a script has room for 200 locals

-- A staged job that has not run yet, waits for nothing else and has no fields but the plan's; then where what does not change
-- begins, its type and its lane. Of the queue that is being promoted into, whose name is put in place of the `%%s`.
local PLAIN = '^pending\0310\31%%d*\31(%%d*)\31\31\31\31\31\31\31\31\31\31\31\31\31s\30()%s\31([^\31]*)\31(p%%-?%%d+)\31rule\31[^\31]*'
  .. '\31tenant\31[^\31]*\31\30'

local lanes, moved, plain, after_created

at_begin(function()
  lanes, moved, plain = {}, 0, nil
  after_created = '\31' .. now_text .. '\31\31\31\31\31\31\31\31\31\31\31\31\30'
end)

-- What is the same for all jobs of a queue. Where tenants take turns in it, or may have a limit, no job is plain.
local function release_begin(queue)
  if queue_sharing(queue) or find(allowed, 'c', 1, true) then
    plain = '^$'
  else
    plain = format(PLAIN, (string.gsub(queue, '%p', '%%%0')))
  end
end

-- Makes a staged job available; false if there is none. Most jobs have nothing but their place changed, without a table of
-- all their fields; the others go the way of all jobs.
release = function(queue, id, tenant)
  if not plain then release_begin(queue) end
  local key = P .. 'job:' .. id
  local text = call('GET', key)
  if not text then return false end
  local created, rest, kind, lane = match(text, plain)
  if not created then
    local job = job_load(id)
    if not marked(job, 's') then return false end
    job_release(job)
    return true
  end
  seq = seq + 1
  call('SET', key, 'available\0310\31' .. int(seq) .. '\31' .. created .. after_created .. string.sub(text, rest))
  local pushes, score = lanes[lane], int(lane_score(0, seq))
  if not pushes then
    pushes = {lowest = score}
    lanes[lane] = pushes
  end
  local size = #pushes
  pushes[size + 1], pushes[size + 2] = score, id
  log[#log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. '\31' .. queue .. '\31\28' .. tenant .. '\31"state":"available"'
  moved = moved + 1
  return true
end

-- What `release` has gathered.
push_released = function(queue)
  for lane, pushes in pairs(lanes) do
    send('ZADD', P .. 'lane:' .. queue .. ':' .. lane, pushes)
    if call('ZADD', P .. 'ready:' .. queue, 'LT', pushes.lowest, lane) == 1 then queue_woke(queue) end
  end
  if moved > 0 then
    count(queue, 'pending', -moved)
    count(queue, 'available', moved)
  end
end

-- Whether one call has released as much as it should.
is_full = function() return false end

end
