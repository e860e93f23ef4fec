-- Removes delivered entries from the outbox of a rule, or of a source to which jobs are handed
-- back.
--
-- ARGV[9…]
--   outbox     rule or source
--   delivered  sequence up to which all entries are delivered
--
-- Returns  number of entries left

local ctx = require('lib/context')
local wire = require('lib/wire')

local call = redis.call
local match = string.match

local ENTRY = wire.pattern(3) -- fields: `staging/outbox_target`

local function run()
  local outbox = ctx.prefix .. 'outbox:' .. ctx.args[9]
  while true do
    local head = call('LINDEX', outbox, 0)
    local _, sequence = match(head or '', ENTRY)
    if not sequence or tonumber(sequence) > tonumber(ctx.args[10]) then break end
    call('LPOP', outbox)
  end
  return call('LLEN', outbox)
end

return run
