-- Adds an API key, unless bounds or other keys forbid it. An existing id is left unchanged.
--
-- keys  hash  id → `digest US role US tenant or '' US creation time in ms US name`
--
-- ARGV[9…]
--   id, digest    of the key
--   role, tenant  of the key; tenant is '' if it spans all tenants
--   name          name of the key
--   managed       1 if a key that is stored elsewhere may manage keys
--   most_of_name  most keys with one name
--   most          most keys in all
--   is_active     1 if authentication is in force already
--   by            the actor, as JSON
--
-- Returns  'ok'; 'full'; 'differs' if the name has another role or tenant; 'many' if the name has
--          too many keys; 'admin' if no key could manage keys

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, signal, subject = runtime.commit, runtime.emit, runtime.signal, runtime.subject
local call = redis.call
local match = string.match

local KEY = wire.pattern(5)

local function run()
  local id, digest, role, tenant, name, managed, most_of_name, most, is_active, by = unpack(ctx.args, 9, 18)
  local key = ctx.prefix .. 'keys'
  if call('HEXISTS', key, id) == 1 then return 'ok' end
  local is_managed, of_name, total = managed == '1' or role == 'admin' and tenant == '', 0, 0
  for _, record in ipairs(call('HVALS', key)) do
    local _, other_role, other_tenant, _, other_name = match(record, KEY)
    total = total + 1
    is_managed = is_managed or other_role == 'admin' and other_tenant == ''
    if other_name == name then
      of_name = of_name + 1
      if other_role ~= role or other_tenant ~= tenant then return 'differs' end
    end
  end
  if total >= tonumber(most) then return 'full' end
  if of_name >= tonumber(most_of_name) then return 'many' end
  if not is_managed then return 'admin' end
  call('HSET', key, id, wire.join(digest, role, tenant, ctx.now_text, name))
  emit('auth.key_created', subject(id), '"name":"' .. name .. '","role":"' .. role .. '","by":' .. by)
  if total == 0 and is_active == '0' then emit('auth.activated', subject(id), '"by":' .. by) end
  signal('keys')
  commit()
  return 'ok'
end

return run
