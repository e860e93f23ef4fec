-- Changes tenants' weights; what they lag behind or are ahead stays the same.
--
-- ARGV[9…] rule, token of the lock, queue, 1 if a webhook said so, then for each: tenant, weight
-- Returns  how many changed, or -1 if the lock is another's

run = function()
  local rule, queue = ARGV[9], ARGV[11]
  if call('HGET', P .. 'plan:' .. rule .. ':lock', 'token') ~= ARGV[10] then return -1 end
  local fair, changed = staging_open(rule, queue), 0

  for at = 13, #ARGV, 2 do
    local tenant = tenant_of(fair, ARGV[at])
    if tenant.state then
      if ARGV[12] == '1' then
        if tenant.state == 'w' then tenant_start(fair, tenant) end
        tenant.asked = now_text
        tenant_touch(fair, tenant)
      end
      if tenant_reweigh(fair, tenant, tonumber(ARGV[at + 1])) then changed = changed + 1 end
    end
  end
  commit()
  return changed
end
