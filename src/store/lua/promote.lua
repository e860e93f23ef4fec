-- Promotes staged jobs into the main queue: as many as wanted, in the order that is fair now. Where they go is the business of
-- `own` or `forward`, whichever part the script is made with.
--
-- ARGV[9…] rule, token of the lock, queue, how many, call id, 1 if this call is sent again; then those of `forward`
-- Returns  {'ok', or 'more' if the call ended before all were promoted, promoted, jobs left, tenant, weight, jobs of it promoted, …}, {'lost'} if the lock is another's, or {'paused'};
--          to a call that is sent again without the tenants

run = function()
  local rule, token, queue, want = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12])

  local lock = P .. 'plan:' .. rule .. ':lock'
  if call('HGET', lock, 'token') ~= token then return {'lost'} end
  if ARGV[14] == '1' then
    local id, promoted, left = match(call('HGET', lock, 'last') or '', '^(%S+) (%d+) (%d+)$')
    if id == ARGV[13] then return {'ok', promoted, left} end
  end
  local plan = plan_open(rule)
  if not plan or plan.paused then return {'paused'} end

  local fair = staging_open(rule, queue)
  if plan.strict and plan.jobs > 0 then want = math.min(want, plan.room) end
  if fair.n == 0 or want == 0 then return {'ok', 0, fair.jobs} end

  -- Promotes a tenant's next job; false if it has none. Ids are read in portions that grow, one more than needed: that tells
  -- whether the last one is out. The first would do if all tenants got the same.
  local first_portion = math.min(math.ceil(want / fair.n), 63)
  local first_last = int(first_portion)
  local function promote_next(tenant)
    while true do
      if not tenant.ids then
        tenant.ids = call('ZRANGE', staging_lane(fair, tenant.name), '0', first_last)
        tenant.at, tenant.taken, tenant.all = 1, 0, #tenant.ids <= first_portion
      elseif tenant.at > #tenant.ids and not tenant.all then
        local taken, portion = tenant.taken, math.min(tenant.taken * 4, 64)
        tenant.ids = call('ZRANGE', staging_lane(fair, tenant.name), int(taken), int(taken + portion - 1))
        tenant.at, tenant.all = 1, #tenant.ids < portion
      end
      local id = tenant.ids[tenant.at]
      if not id then return false end
      tenant.at, tenant.taken = tenant.at + 1, tenant.taken + 1
      if release(queue, id, tenant.name) then return true end
      fair.jobs, plan.added = fair.jobs - 1, plan.added - 1 -- an entry without a job: gone, and nobody's turn
    end
  end

  local function is_drained(tenant)
    if tenant.at <= #tenant.ids then return false end
    if tenant.all then return true end
    return call('ZCARD', staging_lane(fair, tenant.name)) <= tenant.taken
  end

  local promoted, served = 0, {}

  local function promote_first(tenant)
    if not tenant.taken then served[#served + 1] = tenant end
    return promote_next(tenant)
  end

  local stick = may_stick(plan)
  pick_open(fair, want)
  while promoted < want and not is_full() do
    local tenant, window = pick(fair)
    if not tenant then break end
    if stick and is_stuck(plan, queue, tenant.name) then
      forgo(fair, tenant, window)
      tenant.state = 'b'
      call('SADD', fair.key .. ':stuck', tenant.name)
    elseif promote_first(tenant) then
      promoted = promoted + 1
      tenant.got = (tenant.got or 0) + 1
      fair.jobs = fair.jobs - 1
      serve(fair, tenant, window, is_drained(tenant))
    else
      forgo(fair, tenant, window)
    end
  end
  push_released(queue)
  local empty = {}
  for _, tenant in ipairs(served) do
    local lane = staging_lane(fair, tenant.name)
    if tenant.all and tenant.at > #tenant.ids then
      empty[#empty + 1] = lane
    elseif tenant.taken > 0 then
      call('ZREMRANGEBYRANK', lane, '0', int(tenant.taken - 1))
    end
  end
  for first = 1, #empty, 4000 do call('UNLINK', unpack(empty, first, math.min(first + 3999, #empty))) end
  fair_write(fair)
  moments_sweep(fair)
  plan.added = plan.added - promoted
  if plan.room > 0 then plan.room, plan.spent = math.max(plan.room - promoted, 0), true end

  -- Workers that came away empty-handed have waited until now.
  local dry = call('HGET', P .. 'low', 'd ' .. queue)
  if dry and promoted > 0 then
    call('HINCRBY', plan.key, 'wasted', int(math.max(now - tonumber(dry), 0)))
    call('HDEL', P .. 'low', 'd ' .. queue)
  end
  call('HSET', lock, 'last', ARGV[13] .. ' ' .. promoted .. ' ' .. int(fair.jobs))
  commit()
  local answer = {is_full() and 'more' or 'ok', promoted, fair.jobs}
  for _, tenant in ipairs(served) do
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3] = tenant.name, weight_text(tenant.weight), tenant.got or 0
  end
  return answer
end
