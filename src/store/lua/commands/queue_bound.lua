-- Sets or removes the bound of a queue: `queue/bound`.
--
-- ARGV[9…]
--   queue  queue
--   bound  `most strategy mark`, or '' to remove it
--   most   most queues that may have a bound
--
-- Returns  1, or 0 if too many queues have one

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, emit = runtime.commit, runtime.emit
local call = redis.call

local function run()
  local BOUNDS, queue = ctx.prefix .. 'bounds', ctx.args[9]
  call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text)
  if ctx.args[10] == '' then
    call('HDEL', BOUNDS, queue)
    call('HDEL', ctx.prefix .. 'pressed', queue)
  else
    if call('HEXISTS', BOUNDS, queue) == 0 and call('HLEN', BOUNDS) >= tonumber(ctx.args[11]) then return 0 end
    call('HSET', BOUNDS, queue, ctx.args[10])
  end
  local number = call('HLEN', BOUNDS)
  if number > 0 then call('HSET', ctx.prefix .. 'state', 'bounded', number) else call('HDEL', ctx.prefix .. 'state', 'bounded') end
  emit('queue.config_updated', {id = queue, type = '', queue = queue})
  commit()
  return 1
end

return run
