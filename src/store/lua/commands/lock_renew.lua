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
  local rule, holder, life = unpack(ctx.args, 9, 11)
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = key .. ':lock'
  if call('HGET', lock, 'holder') ~= holder then return 0 end
  if life == '0' then
    call('UNLINK', lock)
    -- `-` marks a planner that gave up the lock. A key that is gone is not created again.
    if call('HGET', key, 'planner') == holder then call('HSET', key, 'planner', '-' .. holder) end
    redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. rule)
  else
    call('PEXPIRE', lock, life)
  end
  return 1
end

return run
