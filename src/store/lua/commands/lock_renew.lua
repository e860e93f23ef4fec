-- Renews the planner lock of a rule, or releases it and signals processes that wait for it.
--
-- ARGV[9…]
--   rule    rule
--   holder  the process that holds the lock
--   life    TTL in ms; 0 releases the lock
--
-- Returns  1, or 0 if another process holds the lock

local ctx = require('lib/context')

local call = redis.call

local function run()
  local lock = ctx.prefix .. 'plan:' .. ctx.args[9] .. ':lock'
  if call('HGET', lock, 'holder') ~= ctx.args[10] then return 0 end
  if ctx.args[11] == '0' then
    call('UNLINK', lock)
    -- `-` marks a planner that gave up the lock. A key that is gone is not created again.
    local key = ctx.prefix .. 'plan:' .. ctx.args[9]
    if call('HGET', key, 'planner') == ctx.args[10] then call('HSET', key, 'planner', '-' .. ctx.args[10]) end
    redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. ctx.args[9])
  else
    call('PEXPIRE', lock, ctx.args[11])
  end
  return 1
end

return run
