-- Sets or removes the bound of a queue: `queue/bound`.
--
-- Takes
--   queue  string   queue
--   bound  string?  `most strategy mark`; nil to remove it
--   most   number   most queues that may have a bound
--
-- Returns  true, or false if too many queues have one

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, emit = runtime.commit, runtime.emit
local call = redis.call

local function run()
  local args = packed.read()
  local queue = args.queue
  local BOUNDS = ctx.prefix .. 'bounds'
  call('HSETNX', ctx.prefix .. 'queues', queue, ctx.now_text)
  if args.bound then
    if call('HEXISTS', BOUNDS, queue) == 0 and call('HLEN', BOUNDS) >= args.most then return packed.write(false) end
    call('HSET', BOUNDS, queue, args.bound)
  else
    call('HDEL', BOUNDS, queue)
    call('HDEL', ctx.prefix .. 'bounds:reported', queue)
  end
  local number = call('HLEN', BOUNDS)
  if number > 0 then call('HSET', ctx.prefix .. 'state', 'bounded', number) else call('HDEL', ctx.prefix .. 'state', 'bounded') end
  emit('queue.config_updated', {id = queue, type = '', queue = queue})
  commit()
  return packed.write(true)
end

return run
