-- Revokes an API key, unless nobody could make another one then.
--
-- ARGV[9…] id, 1 if this call is sent again, 1 if a key elsewhere may manage keys, who revokes it, as JSON
-- Returns  'ok', 'missing', or 'last'

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, signal, subject = runtime.commit, runtime.emit, runtime.signal, runtime.subject
local call = redis.call
local match = string.match

local KEY = wire.pattern(5) -- see `commands/key_add`

local function run()
  local key, id = ctx.prefix .. 'keys', ctx.args[9]
  local record = call('HGET', key, id)
  if not record then return ctx.args[10] == '1' and 'ok' or 'missing' end
  local function manages(text)
    local _, role, tenant = match(text, KEY)
    return role == 'admin' and tenant == ''
  end
  if ctx.args[11] ~= '1' and manages(record) then
    local managers = 0
    for _, other in ipairs(call('HVALS', key)) do managers = managers + (manages(other) and 1 or 0) end
    if managers < 2 then return 'last' end
  end
  call('HDEL', key, id)
  local _, role, _, _, name = match(record, KEY)
  local details = name and '"name":"' .. name .. '","role":"' .. role .. '",' or ''
  emit('auth.key_revoked', subject(id), details .. '"by":' .. ctx.args[12])
  signal('keys')
  commit()
  return 'ok'
end

return run
