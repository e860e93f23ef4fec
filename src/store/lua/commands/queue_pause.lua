-- Pauses a queue, or lets it go on. A paused queue takes jobs and hands out none; whatever comes due still comes due.
--
-- paused        hash  paused queues and since when; state.paused is their number, or missing where there is none
--
-- ARGV[9…] queue, 1 to pause, most queues that may be paused, who does it, as JSON
-- Returns  when it was paused, or '' if it is not paused now; `full` if as many are as may be

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit, signal = runtime.commit, runtime.emit, runtime.signal
local call = redis.call

local function run()
  local PAUSED, queue = ctx.prefix .. 'paused', ctx.args[9]
  local about = {id = queue, type = '', queue = queue}
  local since = call('HGET', PAUSED, queue)
  call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text)
  if ctx.args[10] == '1' then
    if since then return since end
    if call('HLEN', PAUSED) >= tonumber(ctx.args[11]) then return 'full' end
    call('HSET', PAUSED, queue, ctx.now_text)
    emit('queue.paused', about, '"by":' .. ctx.args[12])
  elseif since then
    call('HDEL', PAUSED, queue)
    emit('queue.resumed', about, '"by":' .. ctx.args[12])
    -- Nobody took from it, and nobody could: it has not starved.
    call('ZADD', ctx.prefix .. 'live', 'XX', ctx.now_text, queue)
    signal('ready ' .. queue)
  end
  local number = call('HLEN', PAUSED)
  if number > 0 then call('HSET', ctx.prefix .. 'state', 'paused', number) else call('HDEL', ctx.prefix .. 'state', 'paused') end
  commit()
  return ctx.args[10] == '1' and ctx.now_text or ''
end

return run
