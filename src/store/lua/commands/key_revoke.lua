-- Revokes an API key, unless it is the last one that can manage keys.
--
-- Takes
--   id       string   key
--   managed  boolean  true if a key that is stored elsewhere may manage keys
--   by       string   the actor, as JSON
--
-- Returns  `revoked`, also for a key that is gone if this call is a resend; `missing` or `last`

local ctx = require('lib/context')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, signal, subject = runtime.commit, runtime.emit, runtime.signal, runtime.subject
local write = packed.write
local call = redis.call
local match = string.match

local KEY = wire.pattern(5) -- fields: `commands/key_add`

local function run()
  local args = packed.read()
  local id = args.id
  local key = ctx.prefix .. 'keys'
  local record = call('HGET', key, id)
  if not record then return write(args.is_resend and 'revoked' or 'missing') end
  local function manages(text)
    local _, role, tenant = match(text, KEY)
    return role == 'admin' and tenant == ''
  end
  if not args.managed and manages(record) then
    local managers = 0
    for _, other in ipairs(call('HVALS', key)) do managers = managers + (manages(other) and 1 or 0) end
    if managers < 2 then return write('last') end
  end
  call('HDEL', key, id)
  local _, role, _, _, name = match(record, KEY)
  local details = name and '"name":"' .. name .. '","role":"' .. role .. '",' or ''
  emit('auth.key_revoked', subject(id), details .. '"by":' .. args.by)
  signal('keys')
  commit()
  return write('revoked')
end

return run
