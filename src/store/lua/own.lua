-- Part: makes promoted jobs available in our own queues.

local release, push_released, is_full

do -- a script has room for 200 locals

-- Whether further fields may hold one of those that matter here. A value of that name is taken for one, to no harm.
local function is_special(text, at)
  if byte(text, at) == 30 then return false end
  local more = sub(text, at, find(text, '\30', at, true))
  return find(more, 'priority\31', 1, true) or find(more, 'trace\31', 1, true) or find(more, 'expires\31', 1, true)
    or find(more, 'total\31', 1, true) or find(more, 'ttl\31', 1, true)
end

local lanes, moved, moved_of, shares

at_begin(function()
  lanes, moved, moved_of, shares = {}, 0, {}, nil
end)

-- Makes a staged job available; false if there is none. Most jobs have nothing but their place changed, without a table of
-- all their fields; the others go the way of all jobs.
release = function(queue, id, tenant)
  if shares == nil then shares = queue_sharing(queue) or false end
  local key = P .. 'job:' .. id
  local text = call('GET', key)
  if not text then return false end
  local attempt, created, kept, marks, rest = staged_read(text)
  if not attempt then return false end
  local of_queue, kind, lane, at = match(text, PLACE, rest)
  if of_queue ~= queue or shares or tenant_capped(tenant) or find(lane, ';', 1, true) or is_special(text, at) then
    job_release(job_load(id))
    return true
  end
  seq = seq + 1
  call('SET', key, 'available\31' .. attempt .. '\31' .. int(seq) .. '\31' .. created .. '\31' .. now_text .. '\31' .. kept
    .. '\31' .. marks .. '\30' .. sub(text, rest))
  local pushes, score = lanes[lane], int(lane_score(0, seq))
  if not pushes then
    pushes = {lowest = score}
    lanes[lane] = pushes
  end
  pushes[#pushes + 1] = score
  pushes[#pushes + 1] = id
  log[#log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. '\31' .. queue .. '\31\28' .. tenant .. '\31"state":"available"'
  moved, moved_of[tenant] = moved + 1, (moved_of[tenant] or 0) + 1
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
  for name, by in pairs(moved_of) do
    tally(name, 'pending', -by)
    tally(name, 'available', by)
  end
end

-- Whether one call has released as much as it should.
is_full = function() return false end

end
