-- Hands promoted jobs to a main queue that is not ours.
--
-- A staged job has in `push`: what is kept of it when it has left, d nothing, k its record for whoever asks, a that and `push`
-- itself, because it may be refused (`commands/take_back`); where in the envelope its args begin, and their length; the template of what
-- is pushed, with FS for the args and GS for the time. `job/foreign.rs` makes it.
--
-- ARGV[15…] name of the main queue, how its Redis is reached (`here`, `database` or `outbox`), prefix of its keys, its database
--           and ours, or our origin: what tells our outbox from that of another fairgate
--
-- outbox:R  list  what is to be delivered elsewhere: `origin US sequence US queue US payload US payload …`

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local job_module = require('queue/job')
local stage = require('staging/stage')
local record = require('lib/record')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, count, gather, int, send = runtime.on_begin, runtime.count, runtime.gather, runtime.int, runtime.send
local emit = runtime.emit
local tally = job_counts.tally
local job_load, marked = job_module.load, job_module.marked
local job_release = stage.job_release
local join, join_list = wire.join, wire.join_list
local call = redis.call
local find, format, match, sub = string.find, string.format, string.match, string.sub

-- Bytes after which a call ends: more would hold up Redis, and whoever delivers them.
local LADEN = 1048576
local payloads, bytes, left_of, kept, kept_ids, dropped, strays, kept_ms, stamp_text, left_data

on_begin(function()
  payloads, bytes, left_of, kept, kept_ids, dropped, strays = {}, 0, {}, {}, {}, {}, {}
  kept_ms, stamp_text = int(math.max(tonumber(ctx.args[4]), 10000)), format('%.3f', ctx.now / 1000)
  left_data = '"state":"available","main_queue":"' .. ctx.args[15] .. '"'
end)

-- A part of the envelope; a long envelope has a key of its own.
local function args_of(job, first, length)
  if job.apart then return call('GETRANGE', ctx.prefix .. 'env:' .. job.id, int(first - 1), int(first + length - 2)) end
  local start = record.envelope_at(job.text)
  return sub(job.text, start + first - 1, start + first + length - 2)
end

-- Puts a value in place of the first such character of a template, if there is one.
local function put(template, character, value)
  local place = find(template, character, 1, true)
  if not place then return template end
  return sub(template, 1, place - 1) .. value .. sub(template, place + 1)
end

-- A job that has left is not given up any more, nor does it stand in the way of duplicates: this system does not learn when it ends.
local function withdraw(job)
  if job.expires or job.ttl or job.total then gather('ZREM', job_module.DUE, job.id) end
  if job.unique then gather('ZREM', ctx.prefix .. 'unique:' .. match(job.unique, '^%S+'), job.id) end
end

-- The record of a job that has left.
local function record_left(job, keeps)
  job.state, job.seq, job.enqueued, job.finished, job.marks = 'available', '', ctx.now_text, ctx.now_text, 'h'
  job.started, job.op, job.activated, job.next_retry, job.retry_delay = '', '', '', '', ''
  if keeps ~= 'a' then record.set(job, 'push', nil) end
  record.set(job, 'left', ctx.args[15])
  return record.encode(job)
end

-- Reads a staged job; false if there is none. Nothing is written before all of them are known to have arrived.
local function release(_, id, tenant)
  local job = job_load(id)
  if not job or not marked(job, 's') then return false end
  local keeps, first, length, template = match(job.push or '', '^(%a),(%d+),(%d+),(.*)$')
  if not keeps then -- staged when its rule still promoted into our own queues
    strays[#strays + 1] = id
    return true
  end
  local payload = put(put(template, wire.GROUP, stamp_text), wire.FILE, args_of(job, first, length))
  withdraw(job)
  emit('job.enqueued', job, left_data)
  -- Its record is kept for whoever asks, or goes with the job.
  if keeps ~= 'd' then
    kept[#kept + 1] = {job.key, record_left(job, keeps), job.apart and id}
    local size = #kept_ids
    kept_ids[size + 1], kept_ids[size + 2] = ctx.now_text, id
  else
    dropped[#dropped + 1] = job.key
    if job.apart then dropped[#dropped + 1] = ctx.prefix .. 'env:' .. id end
  end
  payloads[#payloads + 1], bytes = payload, bytes + #payload
  left_of[tenant] = (left_of[tenant] or 0) + 1
  return true
end

local function hand_over(queue)
  if ctx.args[16] == 'outbox' then
    -- By the clock, so that it goes on rising when Redis has lost its last writes, or all of them.
    local key = ctx.prefix .. 'plan:' .. ctx.args[9]
    local number = math.max((tonumber(call('HGET', key, 'sent') or nil) or 0) + 1, ctx.now * 1000)
    call('RPUSH', ctx.prefix .. 'outbox:' .. ctx.args[9], join(ctx.args[17], int(number), queue, join_list(payloads)))
    call('HSET', key, 'sent', int(number))
    return
  end
  if ctx.args[16] == 'database' then call('SELECT', ctx.args[18]) end
  send('LPUSH', ctx.args[17] .. 'queue:' .. queue, payloads)
  call('SADD', ctx.args[17] .. 'queues', queue)
  if ctx.args[16] == 'database' then call('SELECT', ctx.args[19]) end
end

local function push_released(queue)
  if #payloads > 0 then
    hand_over(queue)
    count(queue, 'pending', -#payloads)
    for name, by in pairs(left_of) do tally(name, 'staged', -by) end
  end
  for _, job in ipairs(kept) do
    call('SET', job[1], job[2], 'PX', kept_ms)
    if job[3] then call('PEXPIRE', ctx.prefix .. 'env:' .. job[3], kept_ms) end
  end
  send('ZADD', ctx.prefix .. 'finished:forwarded', kept_ids)
  if #dropped > 0 then call('UNLINK', unpack(dropped)) end
  for _, id in ipairs(strays) do job_release(job_load(id)) end
end

local function is_full() return bytes >= LADEN end

return {is_full = is_full, push_released = push_released, release = release}
