-- Counts the workers that get jobs, grouped by what they reported about themselves. Read-only.
--
-- Takes
--   first  number  position of the first worker to read, the most recent one is 0
--   count  number  most workers to read
--
-- Returns
--   read    number  workers that were read; fewer than `count` at the end
--   groups  list of
--     queues       string?  queues, as the worker reported them in JSON
--     pool         string?  pool, in JSON
--     concurrency  string?  concurrency, in JSON
--     workers      number

local ctx = require('lib/context')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

-- Returns true if a worker has reported within `dead_after` and is neither quiet nor terminating.
local function gets_jobs(seen, state, directive)
  return (tonumber(seen or nil) or 0) >= ctx.now - ctx.settings.dead_after and (state or 'running') == 'running'
    and (directive or 'running') == 'running'
end

local function run()
  local args = packed.read()
  local names = call('ZREVRANGE', ctx.prefix .. 'workers', int(args.first), int(args.first + args.count - 1))
  local groups, known = {}, {}
  for _, name in ipairs(names) do
    local seen, state, directive, queues, pool, concurrency =
      unpack(call('HMGET', ctx.prefix .. 'worker:' .. name, 'seen', 'state', 'directive', 'queues', 'pool', 'concurrency'))
    if gets_jobs(seen, state, directive) then
      local key = wire.join(queues or '', pool or '', concurrency or '')
      if not known[key] then
        known[key] = {queues = queues or nil, pool = pool or nil, concurrency = concurrency or nil, workers = 0}
        groups[#groups + 1] = known[key]
      end
      known[key].workers = known[key].workers + 1
    end
  end
  return packed.write({read = #names, groups = groups})
end

return run
