-- Changes tenants' weights; what they lag behind or are ahead stays the same.
--
-- ARGV[9…] rule, token of the lock, queue, 1 if a webhook said so, then for each: tenant, weight
-- Returns  how many changed, or -1 if the lock is another's

run = function()
  local rule, queue = ARGV[9], ARGV[11]
  if call('HGET', P .. 'plan:' .. rule .. ':lock', 'token') ~= ARGV[10] then return -1 end
  local fair, changed = staging_open(rule, queue), 0

  local function reweigh(tenant, weight)
    local was = tenant.weight
    if ARGV[12] == '1' then tenant.asked = now_text end
    tenant_touch(fair, tenant)
    if was == weight then return end
    changed, fair.moved = changed + 1, true
    if weight == 0 then
      if tenant.state == 'w' then tenant_leave(fair, tenant) end
      tenant.weight, tenant.state = 0, 'h'
    elseif tenant.state == 'h' then
      tenant_enter(fair, tenant, weight)
    elseif tenant.state == 'b' then
      tenant.weight = weight
    else
      tenant.start = fair.v - (fair.v - tenant_start(fair, tenant)) * was / weight
      fair.w = fair.w + (weight - was)
      tenant.weight = weight
    end
  end

  for at = 13, #ARGV, 2 do
    local tenant = tenant_of(fair, ARGV[at])
    if tenant.state then
      if tenant.state == 'w' then tenant_start(fair, tenant) end
      reweigh(tenant, tonumber(ARGV[at + 1]))
    end
  end
  commit()
  return changed
end
