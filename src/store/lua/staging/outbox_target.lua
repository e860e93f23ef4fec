-- The promotion target for main queues in other systems: hands promoted jobs over, directly or
-- through an outbox. `staging/promote` calls its functions.
--
-- outbox:R            list  entries of rule R to be delivered: `origin US sequence US queue US
--                           payload US payload …`
-- finished:forwarded  zset  jobs handed over whose records are kept, by time
--
-- Field `push` of a staged job is `keep,first,length,template`, built by `src/store/codec/job.rs`:
--   keep           what is kept of the job: `d` nothing; `k` its record; `a` its record with
--                  `push`, because the other system may reject it (`commands/take_back`)
--   first, length  position of the args in the envelope, and their length
--   template       the payload, with FS in place of the args and GS in place of the time
--
-- ARGV[15…]
--   main                    name of the main queue
--   route                   how its Redis is reached: `here`, `database` or `outbox`
--   prefix                  prefix of its keys; for `outbox`, the origin of this fairgate
--   database, own_database  databases of the Sidekiq and of fairgate

local ctx = require('lib/context')
local job_counts = require('tenants/job_counts')
local job_module = require('queue/job')
local stage = require('staging/stage')
local record = require('lib/record')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local on_begin, count, gather, int, send = runtime.on_begin, runtime.count, runtime.gather, runtime.int, runtime.send
local emit = runtime.emit
local count_tenant = job_counts.count_tenant
local job_load, marked = job_module.load, job_module.marked
local job_release = stage.job_release
local join, join_list = wire.join, wire.join_list
local call = redis.call
local find, format, match, sub = string.find, string.format, string.match, string.sub

-- Bytes of payload after which a call ends, to bound the time in Redis and the size of a delivery.
local MOST_BYTES = 1048576
local rule, main, route, prefix, database, own_database -- arguments
local payloads, bytes, left_of, kept, kept_ids, dropped, strays, kept_ms, stamp_text, left_data

on_begin(function()
  rule, main, route, prefix, database, own_database = ctx.args[9], unpack(ctx.args, 15, 19)
  payloads, bytes, left_of, kept, kept_ids, dropped, strays = {}, 0, {}, {}, {}, {}, {}
  kept_ms, stamp_text = int(math.max(ctx.settings.completed, 10000)), format('%.3f', ctx.now / 1000)
  left_data = '"state":"available","promoted":true,"main_queue":"' .. main .. '"'
end)

-- Returns a part of the envelope; a long envelope has a key of its own.
local function args_of(job, first, length)
  if job.apart then return call('GETRANGE', ctx.prefix .. 'env:' .. job.id, int(first - 1), int(first + length - 2)) end
  local start = job.envelope + first - 1
  return sub(job.text, start, start + length - 1)
end

-- Replaces the first occurrence of a character in a template, if there is one.
local function put(template, character, value)
  local place = find(template, character, 1, true)
  if not place then return template end
  return sub(template, 1, place - 1) .. value .. sub(template, place + 1)
end

-- Removes a job that leaves from `due` and from its unique set: fairgate does not learn when it
-- ends.
local function withdraw(job)
  if job.expires or job.ttl or job.total then gather('ZREM', job_module.DUE, job.id) end
  if job.unique then gather('ZREM', ctx.prefix .. 'unique:' .. match(job.unique, '^%S+'), job.id) end
end

-- Returns the record of a job that leaves.
local function record_left(job, keeps)
  job.state, job.seq, job.enqueued, job.finished, job.marks = 'available', '', ctx.now_text, ctx.now_text, 'h'
  job.started, job.op, job.activated, job.next_retry, job.retry_delay = '', '', '', '', ''
  if keeps ~= 'a' then record.set(job, 'push', nil) end
  record.set(job, 'left', main)
  return record.encode(job)
end

-- Prepares the hand-over of a staged job. Returns false if the job does not exist. Nothing is
-- written before `push_released` has handed all jobs over.
local function release(_, id, tenant)
  local job = job_load(id)
  if not job or not marked(job, 's') then return false end
  local keeps, first, length, template = match(job.push or '', '^(%a),(%d+),(%d+),()')
  if not keeps then -- staged when its rule still promoted to fairgate's own queues
    strays[#strays + 1] = id
    return true
  end
  local payload = put(put(sub(job.push, template), wire.GROUP, stamp_text), wire.FILE, args_of(job, first, length))
  withdraw(job)
  emit('job.enqueued', job, left_data)
  -- The record is kept for queries, or deleted.
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
  if route == 'outbox' then
    -- Derived from the clock, so that it still increases after Redis has lost its last writes, or
    -- all of them.
    local key = ctx.prefix .. 'plan:' .. rule
    local number = math.max((tonumber(call('HGET', key, 'sent') or nil) or 0) + 1, ctx.now * 1000)
    call('RPUSH', ctx.prefix .. 'outbox:' .. rule, join(prefix, int(number), queue, join_list(payloads)))
    call('HSET', key, 'sent', int(number))
    return
  end
  if route == 'database' then call('SELECT', database) end
  send('LPUSH', prefix .. 'queue:' .. queue, payloads)
  call('SADD', prefix .. 'queues', queue)
  if route == 'database' then call('SELECT', own_database) end
end

local function push_released(queue)
  if #payloads > 0 then
    hand_over(queue)
    count(queue, 'pending', -#payloads)
    for name, by in pairs(left_of) do count_tenant(name, 'staged', -by) end
  end
  for _, job in ipairs(kept) do
    call('SET', job[1], job[2], 'PX', kept_ms)
    if job[3] then call('PEXPIRE', ctx.prefix .. 'env:' .. job[3], kept_ms) end
  end
  send('ZADD', ctx.prefix .. 'finished:forwarded', kept_ids)
  if #dropped > 0 then call('UNLINK', unpack(dropped)) end
  for _, id in ipairs(strays) do job_release(job_load(id)) end
end

local function is_full() return bytes >= MOST_BYTES end

return {is_full = is_full, push_released = push_released, release = release}
