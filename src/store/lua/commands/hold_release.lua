-- Begins, prolongs or ends the release of jobs that are staged for a main queue in another system.
--
-- At most one release runs at a time, and none while a process imports jobs from that main queue:
-- it would import the released jobs again.
--
-- release:M  hash  token of the release; last: call id of its last `commands/unstage` and the ids
--                  that it did not find; with a TTL
--
-- ARGV[9…]
--   main       main queue
--   token      token of the release
--   life       ms for which it holds; 0 ends it
--   silent_ms  ms after which a silent importer counts as gone
--
-- Returns  {'ok'}, {'held'} if another release is under way, or {'drained', process and source, ms
--          since that importer registered}

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local function run()
  local main, token, life, silent_ms = unpack(ctx.args, 9, 12)
  local key, importers = ctx.prefix .. 'release:' .. main, ctx.prefix .. 'importers:' .. main
  local holder = call('HGET', key, 'token')
  if holder and holder ~= token then return {'held'} end
  if life == '0' then
    call('UNLINK', key)
    return {'ok'}
  end
  if not holder then
    local seen = call('ZREVRANGE', importers, 0, 0, 'WITHSCORES')
    local age = seen[1] and ctx.now - tonumber(seen[2])
    -- A time in the future is from before the clock was set back.
    if age and age >= 0 and age < tonumber(silent_ms) then return {'drained', seen[1], int(age)} end
    call('HSET', key, 'token', token)
  end
  call('PEXPIRE', key, life)
  return {'ok'}
end

return run
