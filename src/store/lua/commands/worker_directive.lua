-- Sets the directive of a worker, which its next heartbeat returns. A worker gets jobs only while
-- the directive is `running`.
--
-- Takes
--   worker     string  worker
--   directive  string  `running`, `quiet` or `terminate`
--
-- Returns  `done`, `missing`, or `terminates` if `terminate` was set before: it cannot be withdrawn

local ctx = require('lib/context')
local packed = require('lib/packed')
local worker = require('dispatch/worker')
local runtime = require('lib/runtime')

local commit, emit, subject = runtime.commit, runtime.emit, runtime.subject
local set_halted = worker.set_halted
local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local id, directive = args.worker, args.directive
  local key = ctx.prefix .. 'worker:' .. id
  local was = call('HMGET', key, 'seen', 'directive', 'state')
  if not was[1] then return write('missing') end
  if was[2] == 'terminate' and directive ~= 'terminate' then return write('terminates') end
  call('HSET', key, 'directive', directive)
  set_halted(id, directive ~= 'running' or (was[3] or 'running') ~= 'running')
  if was[2] ~= directive and directive ~= 'running' then emit('worker.' .. directive, subject(id)) end
  commit()
  return write('done')
end

return run
