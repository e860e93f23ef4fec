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
local runtime = require('lib/runtime')

local on_begin, count, gather, int, send = runtime.on_begin, runtime.count, runtime.gather, runtime.int, runtime.send
local tally = job_counts.tally
local job_load = job_module.load
local job_release = stage.job_release
local call = redis.call
local concat, find, format, match = table.concat, string.find, string.format, string.match

-- Bytes after which a call ends: more would hold up Redis, and whoever delivers it.
local LADEN = 1048576
-- What does not change of a job that is to be pushed: its type, where `push` begins, what that says, and where the template begins.
local PUSHED = '[^\31]*\31([^\31]*)\31[^\31]*\31rule\31[^\31]*\31tenant\31[^\31]*\31()push\31(%a),(%d+),(%d+),()'
-- Most have not run yet, nor waited for anything else: when it was created, where what does not change begins, and that.
local FRESH = '^pending\0310\31%d*\31(%d*)\31\31\31\31\31\31\31\31\31\31\31\31\31s\30()' .. PUSHED
-- Of any job: attempt, created, marks, and where what does not change begins.
local STAGED = '^pending\31([^\31]*)\31[^\31]*\31([^\31]*)\31[^\31]*\31[^\30]*\31([^\31\30]*)\30()'
PUSHED = '^' .. PUSHED
local sub = string.sub
local payloads, bytes, left_of, kept, kept_ids, dropped, strays, kept_ms, stamp_text, after_created, left, before_tenant, after_tenant

on_begin(function()
  payloads, bytes, left_of, kept, kept_ids, dropped, strays = {}, 0, {}, {}, {}, {}, {}
  kept_ms, stamp_text = int(math.max(tonumber(ctx.args[4]), 10000)), format('%.3f', ctx.now / 1000)
  after_created = '\31' .. ctx.now_text .. '\31\31' .. ctx.now_text .. '\31\31\31\31\31\31\31\31\31\31h\30'
  left = 'left\31' .. ctx.args[15] .. '\31'
  before_tenant, after_tenant = '\31' .. ctx.args[11] .. '\31\28', '\31"state":"available","main_queue":"' .. ctx.args[15] .. '"'
end)

-- The envelope's part from `first` on, given where the record's text ends before it; a long envelope has a key of its own.
local function args_of(id, text, close, first, length)
  if close < #text then return sub(text, close + first, close + first + length - 1), false end
  return call('GETRANGE', ctx.prefix .. 'env:' .. id, int(first - 1), int(first + length - 2)), true
end

-- The template between two places of a text, filled. It may do without the time.
local function fill(text, first, after, args)
  local place, time = find(text, '\28', first, true), find(text, '\29', first, true)
  if not time or time >= after then return sub(text, first, place - 1) .. args .. sub(text, place + 1, after - 1) end
  if place < time then
    return sub(text, first, place - 1) .. args .. sub(text, place + 1, time - 1) .. stamp_text .. sub(text, time + 1, after - 1)
  end
  return sub(text, first, time - 1) .. stamp_text .. sub(text, time + 1, place - 1) .. args .. sub(text, place + 1, after - 1)
end

-- A job that has left is not given up any more, nor in the way of its like: nobody here knows when it ends. A value of one of these
-- names is taken for it, to no harm.
local function withdraw(id, more)
  if find(more, 'expires\31', 1, true) or find(more, 'ttl\31', 1, true) or find(more, 'total\31', 1, true) then
    gather('ZREM', job_module.DUE, id)
  end
  local unique = match(more, '^unique\31(%S+)') or match(more, '\31unique\31(%S+)')
  if unique then gather('ZREM', ctx.prefix .. 'unique:' .. unique, id) end
end

-- Reads a staged job; false if there is none. Nothing is written before all of them are known to have arrived.
local function release(_, id, tenant)
  local key = ctx.prefix .. 'job:' .. id
  local text = call('GET', key)
  if not text then return false end
  local attempt = '0'
  local created, rest, kind, at, keeps, first, length, template = match(text, FRESH)
  if not created then
    local marks
    attempt, created, marks, rest = match(text, STAGED)
    if not attempt or not find(marks, 's', 1, true) then return false end
    kind, at, keeps, first, length, template = match(text, PUSHED, rest)
    if not kind then -- staged when its rule still promoted into our own queues
      strays[#strays + 1] = id
      return true
    end
  end
  local after = find(text, '\31', template, true) + 1
  local close = find(text, '\30', after, true)
  local args, is_apart = args_of(id, text, close, first, length)
  local payload = fill(text, template, after - 1, args)
  if close > after then withdraw(id, sub(text, after, close)) end
  -- Its record is kept for whoever asks, or goes with the job.
  if keeps ~= 'd' then
    kept[#kept + 1] = {key, 'available\31' .. attempt .. '\31\31' .. created .. after_created
      .. sub(text, rest, (keeps == 'a' and after or at) - 1) .. left .. sub(text, after), is_apart and id}
    local size = #kept_ids
    kept_ids[size + 1], kept_ids[size + 2] = ctx.now_text, id
  else
    dropped[#dropped + 1] = key
    if is_apart then dropped[#dropped + 1] = ctx.prefix .. 'env:' .. id end
  end
  payloads[#payloads + 1], bytes = payload, bytes + #payload
  left_of[tenant] = (left_of[tenant] or 0) + 1
  ctx.log[#ctx.log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. before_tenant .. tenant .. after_tenant
  return true
end

local function hand_over(queue)
  if ctx.args[16] == 'outbox' then
    -- By the clock, so that it goes on rising when Redis has lost its last writes, or all of them.
    local key = ctx.prefix .. 'plan:' .. ctx.args[9]
    local number = math.max((tonumber(call('HGET', key, 'sent') or nil) or 0) + 1, ctx.now * 1000)
    call('RPUSH', ctx.prefix .. 'outbox:' .. ctx.args[9], ctx.args[17] .. '\31' .. int(number) .. '\31' .. queue .. '\31' .. concat(payloads, '\31'))
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
