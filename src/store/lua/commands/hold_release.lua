-- Begins, prolongs or ends the release of jobs that are staged for a main queue in another system.
--
-- At most one release runs at a time, and none while a process imports jobs from that main queue:
-- it would import the released jobs again.
--
-- release:M  hash  token of the release; last: call id of its last `commands/unstage` and the ids
--                  that it did not find; with a TTL
--
-- Takes
--   main       string  main queue
--   token      string  token of the release
--   life       number  ms for which it holds; 0 ends it
--   silent_ms  number  ms after which a silent importer counts as gone
--
-- Returns  `held`, `taken` if another release is under way, or {drained: {process: string, from:
--          string, ago_ms: number}} with an importer, its source, and ms since it registered

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local int = runtime.int
local write = packed.write
local call = redis.call
local match = string.match

local function run()
  local args = packed.read()
  local token = args.token
  local key, importers = ctx.prefix .. 'release:' .. args.main, ctx.prefix .. 'importers:' .. args.main
  local holder = call('HGET', key, 'token')
  if holder and holder ~= token then return write('taken') end
  if args.life == 0 then
    call('UNLINK', key)
    return write('held')
  end
  if not holder then
    local importer, seen = unpack(call('ZREVRANGE', importers, 0, 0, 'WITHSCORES'))
    local age = seen and ctx.now - tonumber(seen)
    -- A time in the future is from before the clock was set back.
    if age and age >= 0 and age < args.silent_ms then
      local process, source = match(importer, '^(%S*) ?(.*)$')
      return write({drained = {process = process, from = source, ago_ms = math.floor(age)}})
    end
    call('HSET', key, 'token', token)
  end
  call('PEXPIRE', key, int(args.life))
  return write('held')
end

return run
