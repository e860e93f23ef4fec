-- Tenants of a fair queue: those whose turn comes next, or those named. Changes nothing.
--
-- ARGV[9…] rule, queue, most tenants, 1 to tell since when their first job waits, names
-- Returns  {now, v, w, {start, weight that leaves then, …}, {tenant, busy entry, start or '', staged jobs, created ms or '',
--          the weight that it has everywhere or '', …}}

run = function()
  local fair = staging_open(ARGV[9], ARGV[10])
  local most, tells_age = tonumber(ARGV[11]), ARGV[12] == '1'
  local names = {}
  if #ARGV > 12 then
    names = {unpack(ARGV, 13)}
  else
    local classes = fair.classes.names
    for _, class in ipairs(classes) do
      local share = math.max(math.floor(most / #classes), 1)
      for _, name in ipairs(call('ZRANGE', fair.key .. ':c:' .. class, 0, share - 1)) do names[#names + 1] = name end
    end
  end

  local tenants = {}
  for _, name in ipairs(names) do
    local tenant = tenant_of(fair, name)
    if tenant.state then
      local lane, created = staging_lane(fair, name), ''
      local head = tells_age and call('ZRANGE', lane, 0, 0)[1]
      local job = head and job_load(head)
      if job then created = int(math.max(tonumber(job.created), tonumber(job.due) or 0, tonumber(job.next_retry) or 0)) end
      local at = #tenants
      tenants[at + 1], tenants[at + 2], tenants[at + 3] = name, tenant.was, ''
      if tenant.state == 'w' then tenants[at + 3] = precise(tenant_start(fair, tenant)) end
      tenants[at + 4], tenants[at + 5] = call('ZCARD', lane), created
      tenants[at + 6] = tenant_quota(name).weight and int(tenant_quota(name).weight) or ''
    end
  end

  local leavers = {}
  for _, start in ipairs(call('ZRANGE', fair.key .. ':moments', 0, most - 1)) do
    leavers[#leavers + 1] = start
    leavers[#leavers + 1] = call('HGET', fair.key .. ':sums', start) or '0'
  end
  return {now_text, precise(fair.v), int(fair.w), leavers, tenants}
end
