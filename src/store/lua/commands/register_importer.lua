-- Registers a process that imports jobs from a source of a main queue, or removes it. Refused while
-- a release hands jobs of that main queue back: `commands/hold_release`.
--
-- importers:M  zset  `process source` by the time in ms of its last registration
--
-- Takes
--   main       string   main queue
--   process    string   process
--   source     string   source
--   life       number   ms after which a process that does not register again counts as gone
--   registers  boolean  true to register, false to remove
--
-- Returns  `registered`, `released` if a release is under way, or {removed: number} with the number of
--          other importers of the source

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local int = runtime.int
local write = packed.write
local call = redis.call
local match = string.match

local function run()
  local args = packed.read()
  local key = ctx.prefix .. 'importers:' .. args.main
  local member = args.process .. ' ' .. args.source
  call('ZREMRANGEBYSCORE', key, '-inf', '(' .. int(ctx.now - args.life))
  -- Times in the future are from before the clock was set back; live processes register again.
  call('ZREMRANGEBYSCORE', key, '(' .. ctx.now_text, '+inf')
  if not args.registers then
    call('ZREM', key, member)
    local others = 0
    for _, other in ipairs(call('ZRANGE', key, 0, -1)) do
      if match(other, ' (.*)$') == args.source then others = others + 1 end
    end
    return write({removed = others})
  end
  if call('EXISTS', ctx.prefix .. 'release:' .. args.main) == 1 then
    call('ZREM', key, member)
    return write('released')
  end
  call('ZADD', key, ctx.now_text, member)
  call('PEXPIRE', key, int(args.life))
  return write('registered')
end

return run
