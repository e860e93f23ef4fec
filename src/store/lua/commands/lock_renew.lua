-- Renews the planner lock of a rule, or releases it and signals processes that wait for it.
--
-- Takes
--   rule    string  rule
--   holder  string  the process that holds the lock
--   life    number  TTL in ms; 0 releases the lock
--
-- Returns  true, or false if another process holds the lock

local ctx = require('lib/context')
local packed = require('lib/packed')

local call = redis.call

local function run()
  local args = packed.read()
  local rule, holder = args.rule, args.holder
  local key = ctx.prefix .. 'plan:' .. rule
  local lock = key .. ':lock'
  if call('HGET', lock, 'holder') ~= holder then return packed.write(false) end
  if args.life == 0 then
    call('UNLINK', lock)
    -- `-` marks a planner that gave up the lock. A key that is gone is not created again.
    if call('HGET', key, 'planner') == holder then call('HSET', key, 'planner', '-' .. holder) end
    redis.pcall('PUBLISH', ctx.prefix .. 'signals', 'freed ' .. rule)
  else
    call('PEXPIRE', lock, args.life)
  end
  return packed.write(true)
end

return run
