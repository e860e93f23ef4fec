-- Adds an API key, as far as those that there are allow it.
--
-- keys     hash  id of the key → `digest US role US tenant or '' US ms of its making US name`
--
-- ARGV[9…] id, digest, role, tenant or '', name, 1 if a key elsewhere may manage keys, how many keys of the name there may be, and
--          how many in all, 1 if callers need a key already, who makes it, as JSON
-- Returns  'ok', 'full', 'differs' (the name has another role or tenant), 'many' (of that name), or 'admin' (nobody could manage
--          keys); a key that is there already is there

run = function()
  local id, digest, role, tenant, name = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
  local key = P .. 'keys'
  if call('HEXISTS', key, id) == 1 then return 'ok' end
  local managed, of_name, total = ARGV[14] == '1' or role == 'admin' and tenant == '', 0, 0
  for _, record in ipairs(call('HVALS', key)) do
    local other_role, other_tenant, other_name = match(record, '^[^\31]*\31([^\31]*)\31([^\31]*)\31[^\31]*\31(.*)$')
    total = total + 1
    managed = managed or other_role == 'admin' and other_tenant == ''
    if other_name == name then
      of_name = of_name + 1
      if other_role ~= role or other_tenant ~= tenant then return 'differs' end
    end
  end
  if total >= tonumber(ARGV[16]) then return 'full' end
  if of_name >= tonumber(ARGV[15]) then return 'many' end
  if not managed then return 'admin' end
  call('HSET', key, id, concat({digest, role, tenant, now_text, name}, '\31'))
  emit('auth.key_created', subject(id), '"name":"' .. name .. '","role":"' .. role .. '","by":' .. ARGV[18])
  if total == 0 and ARGV[17] == '0' then emit('auth.activated', subject(id), '"by":' .. ARGV[18]) end
  signal('keys')
  commit()
  return 'ok'
end
