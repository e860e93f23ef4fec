-- The jobs that each worker holds.
--
-- key          type  meaning
-- worker_jobs  zset  `worker US id` of active jobs, all with score 0, read by lexical range of the
--                    worker

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local gather, join = runtime.gather, wire.join
local call = redis.call
local sub = string.sub

-- Returns the bounds of a worker's members. The upper bound is the worker followed by a space, the
-- character after the separator.
local function range(worker)
  return '[' .. join(worker, ''), '(' .. worker .. ' '
end

local function add(worker, id)
  gather('ZADD', ctx.prefix .. 'worker_jobs', '0', join(worker, id))
end

local function remove(worker, id)
  gather('ZREM', ctx.prefix .. 'worker_jobs', join(worker, id))
end

-- Returns the number of jobs that a worker holds.
local function count(worker)
  return call('ZLEXCOUNT', ctx.prefix .. 'worker_jobs', range(worker))
end

-- Returns the ids of up to `limit` jobs that a worker holds.
local function ids(worker, limit)
  local first, last = range(worker)
  local members = call('ZRANGEBYLEX', ctx.prefix .. 'worker_jobs', first, last, 'LIMIT', 0, limit)
  for position, member in ipairs(members) do members[position] = sub(member, #worker + 2) end
  return members
end

local function has(worker, id)
  return call('ZSCORE', ctx.prefix .. 'worker_jobs', join(worker, id)) and true or false
end

return {add = add, remove = remove, count = count, ids = ids, has = has}
