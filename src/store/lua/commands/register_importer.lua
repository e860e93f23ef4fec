-- Registers a process that imports jobs from a source of a main queue, or removes it. Refused while
-- a release hands jobs of that main queue back: `commands/hold_release`.
--
-- importers:M  zset  `process source` by the time in ms of its last registration
--
-- ARGV[9…]
--   main       main queue
--   process    process
--   source     source
--   life       ms after which a process that does not register again counts as gone
--   registers  1 to register, 0 to remove
--
-- Returns  1, or 0 if a release is under way; after a removal, the number of other importers of the
--          source

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call
local match = string.match

local function run()
  local main, process, source, life_ms, registers = unpack(ctx.args, 9, 13)
  local key, life = ctx.prefix .. 'importers:' .. main, tonumber(life_ms)
  local member = process .. ' ' .. source
  call('ZREMRANGEBYSCORE', key, '-inf', '(' .. int(ctx.now - life))
  -- Times in the future are from before the clock was set back; live processes register again.
  call('ZREMRANGEBYSCORE', key, '(' .. ctx.now_text, '+inf')
  if registers == '0' then
    call('ZREM', key, member)
    local others = 0
    for _, other in ipairs(call('ZRANGE', key, 0, -1)) do
      if match(other, ' (.*)$') == source then others = others + 1 end
    end
    return others
  end
  if call('EXISTS', ctx.prefix .. 'release:' .. main) == 1 then
    call('ZREM', key, member)
    return 0
  end
  call('ZADD', key, ctx.now_text, member)
  call('PEXPIRE', key, int(life))
  return 1
end

return run
