-- Changes tenants' weights; what they lag behind or are ahead stays the same. Those of unknown weight wait for their turn from now on.
--
-- ARGV[9…] rule, token of the lock, queue, 1 if a webhook said so, then for each: tenant, weight
-- Returns  how many changed, or -1 if the lock is another's

run = function()
  local rule, queue = ARGV[9], ARGV[11]
  if call('HGET', P .. 'plan:' .. rule .. ':lock', 'token') ~= ARGV[10] then return -1 end
  local levels, changed = staging.levels(staging_open(rule, queue)), 0

  -- At all priorities at which it has jobs staged. Whether it changed.
  local function reweigh(name, weight)
    local is_other = false
    for _, fair in ipairs(levels) do
      local tenant = tenant_of(fair, name)
      if tenant.state then
        if ARGV[12] == '1' then
          if tenant.state == 'w' then tenant_start(fair, tenant) end
          tenant.asked = now_text
          tenant_touch(fair, tenant)
        end
        is_other = tenant_reweigh(fair, tenant, weight, true) or is_other
      end
    end
    return is_other
  end

  for at = 13, #ARGV, 2 do
    if reweigh(ARGV[at], tonumber(ARGV[at + 1])) then changed = changed + 1 end
  end
  commit()
  return changed
end
