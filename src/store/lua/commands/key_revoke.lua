-- Revokes an API key, unless it is the last one that can manage keys.
--
-- ARGV[9…]
--   id         key
--   is_resend  1 if this call is a resend: a key that is gone counts as revoked
--   managed    1 if a key that is stored elsewhere may manage keys
--   by         the actor, as JSON
--
-- Returns  'ok', 'missing' or 'last'

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, signal, subject = runtime.commit, runtime.emit, runtime.signal, runtime.subject
local call = redis.call
local match = string.match

local KEY = wire.pattern(5) -- fields: `commands/key_add`

local function run()
  local id, is_resend, managed, by = unpack(ctx.args, 9, 12)
  local key = ctx.prefix .. 'keys'
  local record = call('HGET', key, id)
  if not record then return is_resend == '1' and 'ok' or 'missing' end
  local function manages(text)
    local _, role, tenant = match(text, KEY)
    return role == 'admin' and tenant == ''
  end
  if managed ~= '1' and manages(record) then
    local managers = 0
    for _, other in ipairs(call('HVALS', key)) do managers = managers + (manages(other) and 1 or 0) end
    if managers < 2 then return 'last' end
  end
  call('HDEL', key, id)
  local _, role, _, _, name = match(record, KEY)
  local details = name and '"name":"' .. name .. '","role":"' .. role .. '",' or ''
  emit('auth.key_revoked', subject(id), details .. '"by":' .. by)
  signal('keys')
  commit()
  return 'ok'
end

return run
