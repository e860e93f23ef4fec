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
  local queue, bound, most = unpack(ctx.args, 9, 11)
  local BOUNDS = ctx.prefix .. 'bounds'
  call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text)
  if bound == '' then
    call('HDEL', BOUNDS, queue)
    call('HDEL', ctx.prefix .. 'pressed', queue)
  else
    if call('HEXISTS', BOUNDS, queue) == 0 and call('HLEN', BOUNDS) >= tonumber(most) then return 0 end
    call('HSET', BOUNDS, queue, bound)
  end
  local number = call('HLEN', BOUNDS)
  if number > 0 then call('HSET', ctx.prefix .. 'state', 'bounded', number) else call('HDEL', ctx.prefix .. 'state', 'bounded') end
  emit('queue.config_updated', {id = queue, type = '', queue = queue})
  commit()
  return 1
end

return run
