-- Registers a process that takes jobs in from a source of a main queue, or removes it. Refused while a release hands jobs of that
-- main queue back: see `commands/hold_release`.
--
-- importers:M  zset  `process source` by the time in ms at which it last registered
--
-- ARGV[9…] main queue, process, source, ms after which a process that does not register again is gone, 1 to register, 0 to remove it
-- Returns  1, or 0 if a release is under way; for a process that is removed, how many others drain the same source

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call
local match = string.match

local function run()
  local key, life = ctx.prefix .. 'importers:' .. ctx.args[9], tonumber(ctx.args[12])
  local member = ctx.args[10] .. ' ' .. ctx.args[11]
  call('ZREMRANGEBYSCORE', key, '-inf', '(' .. int(ctx.now - life))
  call('ZREMRANGEBYSCORE', key, '(' .. ctx.now_text, '+inf') -- from before the clock was set back: whoever lives registers again
  if ctx.args[13] == '0' then
    call('ZREM', key, member)
    local others = 0
    for _, other in ipairs(call('ZRANGE', key, 0, -1)) do
      if match(other, ' (.*)$') == ctx.args[11] then others = others + 1 end
    end
    return others
  end
  if call('EXISTS', ctx.prefix .. 'release:' .. ctx.args[9]) == 1 then
    call('ZREM', key, member)
    return 0
  end
  call('ZADD', key, ctx.now_text, member)
  call('PEXPIRE', key, int(life))
  return 1
end

return run
