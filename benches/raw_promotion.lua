-- Promotion without the choice of tenants: the writes of `promote.lua` for jobs that the caller names. No script that
-- makes these writes can be faster, so promotion is compared with it.
--
-- KEYS[1]  the namespace's prefix
-- ARGV     rule, queue, job type, then for each tenant: name, jobs promoted so far, its start from now on, 1 if these are its last
--          jobs, jobs, their ids
-- Returns  how many jobs were promoted

local P, call, rule, queue, kind = KEYS[1], redis.call, ARGV[1], ARGV[2], ARGV[3]
local FRESH = '^pending\0310\31%d*\31(%d*)\31[^\30]*\30()'
local fair, plan = P .. 'fair:' .. rule .. ':' .. queue, P .. 'plan:' .. rule
local state = call('HMGET', P .. 'state', 'seq', 'events')
local seq, time = tonumber(state[1]), call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local clock, pace = call('HMGET', fair, 'v', 'w', 'n', 'jobs', 'classes', 'leavers'), call('HMGET', plan, 'room', 'due')
local first = 100 * 35184372088832 + seq + 1
local after_creation = '\31' .. now .. '\31\31\31\31\31\31\31\31\31\31\31\31\30'

local lane, log, records, emptied, promoted, last = {}, {}, {}, {}, 0, 0
local idle, busy, left, leaving, gone, placed = {}, {}, {}, {}, {}, {}
local at = 4
while ARGV[at] do
  local name, so_far, start, is_last, jobs = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  for index = at + 5, at + 4 + jobs do
    local id = ARGV[index]
    local key = P .. 'job:' .. id
    local text = call('GET', key)
    seq = seq + 1
    local created, rest = string.match(text, FRESH)
    records[#records + 1] = key
    records[#records + 1] = 'available\0310\31' .. string.format('%d', seq) .. '\31' .. created .. after_creation .. string.sub(text, rest)
    lane[#lane + 1] = string.format('%d', 100 * 35184372088832 + seq)
    lane[#lane + 1] = id
    log[#log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. '\31' .. queue .. '\31\28' .. name .. '\31"state":"available"'
  end
  if is_last == '1' then
    last = last + 1
    emptied[last] = fair .. ':lane:' .. name
    idle[last], gone[last] = name, name
    leaving[#leaving + 1], leaving[#leaving + 2] = start, name
    left[#left + 1], left[#left + 2] = name, '1000 ' .. start
  else
    call('ZREMRANGEBYRANK', fair .. ':lane:' .. name, '0', jobs - 1)
    placed[#placed + 1], placed[#placed + 2] = start, name
    busy[#busy + 1], busy[#busy + 2] = name, '1000 w ' .. so_far .. ' ' .. now .. ' 0'
  end
  promoted = promoted + jobs
  at = at + 5 + jobs
end

call('MSET', unpack(records))
call('ZADD', P .. 'lane:' .. queue .. ':p0', unpack(lane))
call('ZADD', P .. 'ready:' .. queue, 'LT', string.format('%d', first), 'p0')
if #placed > 0 then
  call('ZADD', fair .. ':c:39', unpack(placed))
  call('HSET', fair .. ':busy', unpack(busy))
end
local waiting, jobs = tonumber(clock[3]) - last, tonumber(clock[4]) - promoted
local has_ended = waiting == 0
if last > 0 then
  call('UNLINK', unpack(emptied))
  call('HDEL', fair .. ':busy', unpack(idle))
end
local classes, leavers = clock[5], clock[6]
if last > 0 and not has_ended then
  leavers = '1'
  call('ZREM', fair .. ':c:39', unpack(gone))
  call('ZADD', fair .. ':leaving', unpack(leaving))
  call('HSET', fair .. ':left', unpack(left))
  if call('HINCRBY', fair .. ':sums', leaving[1], last * 1000) == last * 1000 then
    call('ZADD', fair .. ':moments', leaving[1], leaving[1])
  end
end
if has_ended then
  call('UNLINK', fair .. ':c:39')
  if leavers ~= '' then call('UNLINK', fair .. ':leaving', fair .. ':left', fair .. ':moments', fair .. ':sums') end
  classes, leavers = ' ', ''
end
call('HSET', fair, 'v', has_ended and '0' or clock[1], 'w', has_ended and '0' or clock[2], 'n', string.format('%d', waiting),
  'jobs', string.format('%d', jobs), 'classes', classes, 'leavers', leavers)
if has_ended then
  if call('HINCRBY', P .. 'low', 'n ' .. queue, '-1') <= 0 then
    call('HDEL', P .. 'low', 'm ' .. queue, 'd ' .. queue, 'n ' .. queue)
  end
  call('HINCRBY', P .. 'state', 'staged', '-1')
end
if jobs == 0 then
  call('PEXPIRE', fair, '60000')
  call('ZREM', plan .. ':queues', queue)
end
call('HSET', plan .. ':lock', 'last', 'raw ' .. promoted .. ' ' .. jobs)
call('HINCRBY', plan, 'staged', -promoted)
if pace[1] then call('HSET', plan, 'room', pace[1], 'due', pace[2] or '0') end
call('HINCRBY', P .. 'counts:' .. queue, 'pending', -promoted)
call('HINCRBY', P .. 'counts:' .. queue, 'available', promoted)
local events = string.format('%d', tonumber(state[2]) + promoted)
call('XADD', P .. 'events', '*', 'n', events, 't', now, 'e', table.concat(log, '\30'))
call('HSET', P .. 'state', 'clock', now, 'seq', string.format('%d', seq), 'events', events)
return promoted
