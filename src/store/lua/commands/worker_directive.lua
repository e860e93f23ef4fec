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
  local worker_id, directive = unpack(ctx.args, 9, 10)
  local key = ctx.prefix .. 'worker:' .. worker_id
  local was = call('HMGET', key, 'seen', 'directive', 'state')
  if not was[1] then return 'missing' end
  if was[2] == 'terminate' and directive ~= 'terminate' then return 'terminate' end
  call('HSET', key, 'directive', directive)
  set_halted(worker_id, directive ~= 'running' or (was[3] or 'running') ~= 'running')
  if was[2] ~= directive and directive ~= 'running' then emit('worker.' .. directive, subject(worker_id)) end
  commit()
  return 'ok'
end

return run
