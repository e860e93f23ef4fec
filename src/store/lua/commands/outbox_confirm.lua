-- Takes what has been delivered out of the outbox of a rule, or of a source of jobs that are handed back.
--
-- ARGV[9…] rule or source, sequence up to which all is delivered
-- Returns  how many entries are left

local ctx = require('lib/context')
local wire = require('lib/wire')

local call = redis.call
local match = string.match

local ENTRY = wire.pattern(3) -- see `staging/outbox_target`

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
