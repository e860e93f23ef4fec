-- Renews the lock of a rule, or gives it up and tells those who wait for it.
--
-- ARGV[9…] rule, holder, life ms; 0 gives it up
-- Returns  1, or 0 if the lock is another's

local ctx = require('lib/context')

local call = redis.call

local function run()
  local lock = ctx.prefix .. 'plan:' .. ctx.args[9] .. ':lock'
  if call('HGET', lock, 'holder') ~= ctx.args[10] then return 0 end
  if ctx.args[11] == '0' then
    call('UNLINK', lock)
    -- `-`: it left by itself. A key that is gone is not made anew.
    local key = ctx.prefix .. 'plan:' .. ctx.args[9]
    if call('HGET', key, 'planner') == ctx.args[10] then call('HSET', key, 'planner', '-' .. ctx.args[10]) end
    redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. ctx.args[9])
  else
    call('PEXPIRE', lock, ctx.args[11])
  end
  return 1
end

return run
