-- Begins the release of jobs that are staged for a main queue, goes on with it, or ends it. One runs at a time, and none while a
-- process takes jobs in: it would take the same jobs in again.
--
-- release:M  hash  token of the release, last (call id of its last `unstage`, and the ids that it did not find), with a TTL
--
-- ARGV[9…] main queue, token, ms for which it holds (0 ends it), ms after which a silent importer is gone
-- Returns  {'ok'}, {'held'} if another one is under way, or {'drained', process and source, ms since it registered}

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local function run()
  local key, importers = ctx.prefix .. 'release:' .. ctx.args[9], ctx.prefix .. 'importers:' .. ctx.args[9]
  local holder = call('HGET', key, 'token')
  if holder and holder ~= ctx.args[10] then return {'held'} end
  if ctx.args[11] == '0' then
    call('UNLINK', key)
    return {'ok'}
  end
  if not holder then
    local seen = call('ZREVRANGE', importers, 0, 0, 'WITHSCORES')
    local age = seen[1] and ctx.now - tonumber(seen[2])
    -- One from the future registered before the clock was set back.
    if age and age >= 0 and age < tonumber(ctx.args[12]) then return {'drained', seen[1], int(age)} end
    call('HSET', key, 'token', ctx.args[10])
  end
  call('PEXPIRE', key, ctx.args[11])
  return {'ok'}
end

return run
