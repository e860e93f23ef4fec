-- Adds an API key, unless bounds or other keys forbid it. An existing id is left unchanged.
--
-- keys  hash  id → `digest US role US tenant or '' US creation time in ms US name`
--
-- Takes
--   id            string   key
--   digest        string   of the key
--   role          string   of the key
--   tenant        string   of the key; '' if it spans all tenants
--   name          string   of the key
--   managed       boolean  true if a key that is stored elsewhere may manage keys
--   most_of_name  number   most keys with one name
--   most          number   most keys in all
--   active        boolean  true if authentication is in force already
--   by            string   the actor, as JSON
--
-- Returns  `added`; `full`; `differs` if the name has another role or tenant; `many` if the name
--          has too many keys; `no_admin` if no key could manage keys

local ctx = require('lib/context')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, signal, subject = runtime.commit, runtime.emit, runtime.signal, runtime.subject
local write = packed.write
local call = redis.call
local match = string.match

local KEY = wire.pattern(5)

local function run()
  local args = packed.read()
  local id, role, tenant, name = args.id, args.role, args.tenant, args.name
  local key = ctx.prefix .. 'keys'
  if call('HEXISTS', key, id) == 1 then return write('added') end
  local is_managed, of_name, total = args.managed or role == 'admin' and tenant == '', 0, 0
  for _, record in ipairs(call('HVALS', key)) do
    local _, other_role, other_tenant, _, other_name = match(record, KEY)
    total = total + 1
    is_managed = is_managed or other_role == 'admin' and other_tenant == ''
    if other_name == name then
      of_name = of_name + 1
      if other_role ~= role or other_tenant ~= tenant then return write('differs') end
    end
  end
  if total >= args.most then return write('full') end
  if of_name >= args.most_of_name then return write('many') end
  if not is_managed then return write('no_admin') end
  call('HSET', key, id, wire.join(args.digest, role, tenant, ctx.now_text, name))
  emit('auth.key_created', subject(id), '"name":"' .. name .. '","role":"' .. role .. '","by":' .. args.by)
  if total == 0 and not args.active then emit('auth.activated', subject(id), '"by":' .. args.by) end
  signal('keys')
  commit()
  return write('added')
end

return run
