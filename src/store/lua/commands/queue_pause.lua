-- Pauses or resumes a queue. A paused queue accepts jobs but none are fetched from it; scheduled
-- jobs and retries still become available.
--
-- paused        hash  paused queue → time of the pause
-- state.paused        number of paused queues; missing if there are none
--
-- ARGV[9…]
--   queue   queue
--   pauses  1 to pause, 0 to resume
--   most    most queues that may be paused
--   by      the actor, as JSON
--
-- Returns  time of the pause, '' if the queue is not paused now, or `full`

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, signal = runtime.commit, runtime.emit, runtime.signal
local call = redis.call

local function run()
  local queue, pauses, most, by = unpack(ctx.args, 9, 12)
  local PAUSED = ctx.prefix .. 'paused'
  local about = {id = queue, type = '', queue = queue}
  local since = call('HGET', PAUSED, queue)
  call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text)
  if pauses == '1' then
    if since then return since end
    if call('HLEN', PAUSED) >= tonumber(most) then return 'full' end
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
  return pauses == '1' and ctx.now_text or ''
end

return run
