-- Pauses or resumes a queue. A paused queue accepts jobs but none are fetched from it; scheduled
-- jobs and retries still become available.
--
-- paused        hash  paused queue → time of the pause
-- state.paused        number of paused queues; missing if there are none
--
-- Takes
--   queue   string   queue
--   pauses  boolean  true to pause, false to resume
--   most    number   most queues that may be paused
--   by      string   the actor, as JSON
--
-- Returns  {paused: number} with the time of the pause, `running`, or `full`

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, emit, signal = runtime.commit, runtime.emit, runtime.signal
local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local queue, by = args.queue, args.by
  local PAUSED = ctx.prefix .. 'paused'
  local about = {id = queue, type = '', queue = queue}
  local since = call('HGET', PAUSED, queue)
  call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text)
  if args.pauses then
    if since then return write({paused = tonumber(since)}) end
    if call('HLEN', PAUSED) >= args.most then return write('full') end
    call('HSET', PAUSED, queue, ctx.now_text)
    emit('queue.paused', about, '"by":' .. by)
  elseif since then
    call('HDEL', PAUSED, queue)
    emit('queue.resumed', about, '"by":' .. by)
    -- While it was paused, nothing could be taken from it, so it has not starved.
    call('ZADD', ctx.prefix .. 'live', 'XX', ctx.now_text, queue)
    signal('ready ' .. queue)
  end
  local number = call('HLEN', PAUSED)
  if number > 0 then call('HSET', ctx.prefix .. 'state', 'paused', number) else call('HDEL', ctx.prefix .. 'state', 'paused') end
  commit()
  return write(args.pauses and {paused = ctx.now} or 'running')
end

return run
