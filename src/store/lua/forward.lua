-- Part: hands promoted jobs to a main queue that is not ours.
--
-- A staged job has in `push`: what is kept of it when it has left, d nothing, k its record for whoever asks, a that and `push`
-- itself, because it may be refused (`take_back.lua`); where in the envelope its args begin, and their length; the template of what
-- is pushed, with FS for the args and GS for the time. `job/foreign.rs` makes it.
--
-- ARGV[15…] name of the main queue, how its Redis is reached (`here`, `database` or `outbox`), prefix of its keys, its database
--           and ours, or our origin: what tells our outbox from that of another fairgate
--
-- outbox:R  list  what is to be delivered elsewhere: `origin US sequence US queue US payload US payload …`

local release, push_released, is_full

do -- a script has room for 200 locals

local PUSH = '^push\31(%a),(%d+),(%d+),([^\31]*)\31()'
-- Bytes after which a call ends: more would hold up Redis, and whoever delivers it.
local LADEN = 1048576
-- A job that has not run yet, waits for nothing else and has no fields but the plan's, a short envelope, and args before the time
-- in its template: then where what does not change begins, its type, where `push` begins, that, and where the envelope begins.
local PLAIN = '^pending\0310\31%d*\31(%d*)\31\31\31\31\31\31\31\31\31\31\31\31\31s\30()[^\31]*\31([^\31]*)\31[^\31]*\31rule\31[^\31]*'
  .. '\31tenant\31[^\31]*\31()push\31([dk]),(%d+),(%d+),([^\28\29\31]*)\28([^\29\31]*)\29([^\31]*)\31\30().'
local payloads, bytes, left_of, kept, kept_ids, dropped, strays, kept_ms, stamp_text, after_created, left

at_begin(function()
  payloads, bytes, left_of, kept, kept_ids, dropped, strays = {}, 0, {}, {}, {}, {}, {}
  kept_ms, stamp_text = int(math.max(tonumber(ARGV[4]), 10000)), format('%.3f', now / 1000)
  after_created = '\31' .. now_text .. '\31\31' .. now_text .. '\31\31\31\31\31\31\31\31\31\31h\30'
  left = 'left\31' .. ARGV[15] .. '\31'
end)

-- The envelope's part from `first` on; a long envelope has a key of its own.
local function args_of(id, text, after, first, length)
  local before = find(text, '\30', after, true)
  if before < #text then return sub(text, before + first, before + first + length - 1), false end
  return call('GETRANGE', P .. 'env:' .. id, first - 1, first + length - 2), true
end

-- A template may do without the time.
local function fill(template, args)
  local place, time = find(template, '\28', 1, true), find(template, '\29', 1, true)
  if not time then return sub(template, 1, place - 1) .. args .. sub(template, place + 1) end
  if place < time then
    return sub(template, 1, place - 1) .. args .. sub(template, place + 1, time - 1) .. stamp_text .. sub(template, time + 1)
  end
  return sub(template, 1, time - 1) .. stamp_text .. sub(template, time + 1, place - 1) .. args .. sub(template, place + 1)
end

-- What becomes of a job's record: it is kept for whoever asks, or goes with the job.
local function retire(keeps, id, key, is_apart, text)
  if keeps ~= 'd' then
    kept[#kept + 1] = {key, text, is_apart and id}
    local size = #kept_ids
    kept_ids[size + 1], kept_ids[size + 2] = now_text, id
  else
    dropped[#dropped + 1] = key
    if is_apart then dropped[#dropped + 1] = P .. 'env:' .. id end
  end
end

local function release_slowly(id, key, text)
  local attempt, created, _, _, rest = staged_read(text)
  if not attempt then return nil end
  local _, kind, _, at = match(text, PLACE, rest)
  local keeps, first, length, template, after = match(text, PUSH, at)
  if not keeps then -- staged when its rule still promoted into our own queues
    strays[#strays + 1] = id
    return nil, true
  end
  local args, is_apart = args_of(id, text, after, tonumber(first), tonumber(length))
  retire(keeps, id, key, is_apart, 'available\31' .. attempt .. '\31\31' .. created .. after_created
    .. sub(text, rest, (keeps == 'a' and after or at) - 1) .. left .. sub(text, after))
  -- Whoever is to be given up at some time is not any more. A value of one of these names is taken for it, to no harm.
  local more = sub(text, after, find(text, '\30', after, true))
  if find(more, 'expires\31', 1, true) or find(more, 'ttl\31', 1, true) or find(more, 'total\31', 1, true) then
    gather('ZREM', DUE, id)
  end
  -- Nobody here knows when it ends: it stands in the way of its like only while it is staged.
  local unique = match(more, '^unique\31(%S+)') or match(more, '\31unique\31(%S+)')
  if unique then gather('ZREM', P .. 'unique:' .. unique, id) end
  return fill(template, args), kind
end

-- Reads a staged job; nothing is written before all of them are known to have arrived.
release = function(queue, id, tenant)
  local key = P .. 'job:' .. id
  local text = call('GET', key)
  if not text then return false end
  local created, rest, kind, at, keeps, first, length, before, between, behind, envelope = match(text, PLAIN)
  local payload
  if created then
    first = envelope + first - 1
    payload = before .. sub(text, first, first + length - 1) .. between .. stamp_text .. behind
    retire(keeps, id, key, false, keeps ~= 'd' and
      'available\0310\31\31' .. created .. after_created .. sub(text, rest, at - 1) .. left .. sub(text, envelope - 1))
  else
    payload, kind = release_slowly(id, key, text)
    if not payload then return kind or false end
  end
  payloads[#payloads + 1], bytes = payload, bytes + #payload
  left_of[tenant] = (left_of[tenant] or 0) + 1
  log[#log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. '\31' .. queue .. '\31\28' .. tenant .. '\31"state":"available","main_queue":"'
    .. ARGV[15] .. '"'
  return true
end

local function hand_over(queue)
  if ARGV[16] == 'outbox' then
    -- By the clock, so that it goes on rising when Redis has lost its last writes, or all of them.
    local key = P .. 'plan:' .. ARGV[9]
    local number = math.max((tonumber(call('HGET', key, 'sent') or nil) or 0) + 1, now * 1000)
    call('RPUSH', P .. 'outbox:' .. ARGV[9], ARGV[17] .. '\31' .. int(number) .. '\31' .. queue .. '\31' .. concat(payloads, '\31'))
    call('HSET', key, 'sent', int(number))
    return
  end
  if ARGV[16] == 'database' then call('SELECT', ARGV[18]) end
  send('LPUSH', ARGV[17] .. 'queue:' .. queue, payloads)
  call('SADD', ARGV[17] .. 'queues', queue)
  if ARGV[16] == 'database' then call('SELECT', ARGV[19]) end
end

push_released = function(queue)
  if #payloads > 0 then
    hand_over(queue)
    count(queue, 'pending', -#payloads)
    for name, by in pairs(left_of) do tally(name, 'staged', -by) end
  end
  for _, job in ipairs(kept) do
    call('SET', job[1], job[2], 'PX', kept_ms)
    if job[3] then call('PEXPIRE', P .. 'env:' .. job[3], kept_ms) end
  end
  send('ZADD', P .. 'finished:forwarded', kept_ids)
  if #dropped > 0 then call('UNLINK', unpack(dropped)) end
  for _, id in ipairs(strays) do job_release(job_load(id)) end
end

is_full = function() return bytes >= LADEN end

end
