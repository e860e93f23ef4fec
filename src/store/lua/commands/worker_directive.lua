-- Sets the directive of a worker, which its next heartbeat returns. A worker gets jobs only while
-- the directive is `running`.
--
-- ARGV[9…]
--   worker     worker
--   directive  `running`, `quiet` or `terminate`
--
-- Returns  'ok', 'missing', or 'terminate' if that was set before: it cannot be withdrawn

local ctx = require('lib/context')
local worker = require('dispatch/worker')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local set_halted = worker.set_halted
local call = redis.call

local function run()
  local key = ctx.prefix .. 'worker:' .. ctx.args[9]
  local was = call('HMGET', key, 'seen', 'directive', 'state')
  if not was[1] then return 'missing' end
  if was[2] == 'terminate' and ctx.args[10] ~= 'terminate' then return 'terminate' end
  call('HSET', key, 'directive', ctx.args[10])
  set_halted(ctx.args[9], ctx.args[10] ~= 'running' or (was[3] or 'running') ~= 'running')
  if was[2] ~= ctx.args[10] and ctx.args[10] ~= 'running' then emit('worker.' .. ctx.args[10], subject(ctx.args[9])) end
  commit()
  return 'ok'
end

return run
