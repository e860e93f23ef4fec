-- Removes delivered entries from the outbox of a rule, or of a source to which jobs are handed
-- back.
--
-- Takes
--   outbox     string  rule or source
--   delivered  number  sequence up to which all entries are delivered
--
-- Returns  number of entries left

local ctx = require('lib/context')
local packed = require('lib/packed')
local wire = require('lib/wire')

local call = redis.call
local match = string.match

local ENTRY = wire.pattern(3) -- fields: `staging/outbox_target`

local function run()
  local args = packed.read()
  local outbox = ctx.prefix .. 'outbox:' .. args.outbox
  while true do
    local head = call('LINDEX', outbox, 0)
    local _, sequence = match(head or '', ENTRY)
    if not sequence or tonumber(sequence) > args.delivered then break end
    call('LPOP', outbox)
  end
  return packed.write(call('LLEN', outbox))
end

return run
