-- Takes what has been delivered out of the outbox of a rule, or of a source of jobs that are handed back.
--
-- ARGV[9…] rule or source, sequence up to which all is delivered
-- Returns  how many entries are left

local ctx = require('lib/context')

local call = redis.call
local match = string.match

local function run()
  local outbox = ctx.prefix .. 'outbox:' .. ctx.args[9]
  while true do
    local head = call('LINDEX', outbox, 0)
    if not head or tonumber(match(head, '^[^\31]*\31(%d+)\31')) > tonumber(ctx.args[10]) then break end
    call('LPOP', outbox)
  end
  return call('LLEN', outbox)
end

return run
