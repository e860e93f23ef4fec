-- Promotes staged jobs into the main queue: as many as wanted, in the order that is fair now.
--
-- ARGV[9…] rule, token of the lock, queue, how many, call id, 1 if this call is sent again
-- Returns  {'ok', promoted, jobs left, tenant, weight, jobs of it promoted, …}, {'lost'} if the lock is another's, or {'paused'};
--          to a call that is sent again without the tenants

local rule, token, queue, want = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12])

local lock = P .. 'plan:' .. rule .. ':lock'
if call('HGET', lock, 'token') ~= token then return {'lost'} end
if ARGV[14] == '1' then
  local id, promoted, left = match(call('HGET', lock, 'last') or '', '^(%S+) (%d+) (%d+)$')
  if id == ARGV[13] then return {'ok', promoted, left} end
end
local plan = plan_open(rule)
if not plan or plan.paused then return {'paused'} end

local fair = fair_open(rule, queue)
if plan.strict and plan.jobs > 0 then want = math.min(want, plan.room) end
if fair.n == 0 or want == 0 then return {'ok', 0, fair.jobs} end

-- Ids of a tenant are read in portions that grow, one more than needed: that tells whether the last one is out.
local function next_job(tenant)
  while true do
    if not tenant.ids or (tenant.at > #tenant.ids and not tenant.all) then
      tenant.portion = tenant.ids and math.min(tenant.portion * 4, 64) or 2
      tenant.taken = tenant.taken or 0
      tenant.ids = call('ZRANGE', staging_lane(fair, tenant.name), tenant.taken, tenant.taken + tenant.portion - 1)
      tenant.at, tenant.all = 1, #tenant.ids < tenant.portion
    end
    local id = tenant.ids[tenant.at]
    if not id then return nil end
    tenant.at, tenant.taken = tenant.at + 1, tenant.taken + 1
    local job = job_load(id)
    if job and job.state == 'pending' and marked(job, 's') then return job end
    fair.jobs, plan.added = fair.jobs - 1, plan.added - 1 -- an entry without a job: gone, and nobody's turn
  end
end

local function is_drained(tenant)
  if tenant.at <= #tenant.ids then return false end
  if tenant.all then return true end
  return call('ZCARD', staging_lane(fair, tenant.name)) <= tenant.taken
end

pick_open(fair, want)
local promoted, served = 0, {}
while promoted < want do
  local tenant, window = pick(fair)
  if not tenant then break end
  if not tenant.taken then served[#served + 1] = tenant end
  local job = next_job(tenant)
  if job then
    unmark(job, 's')
    job_make_available(job)
    job_save(job)
    emit('job.enqueued', job, '"state":"available"')
    promoted = promoted + 1
    tenant.got = (tenant.got or 0) + 1
    serve(fair, tenant, window, is_drained(tenant))
  else
    window.at = window.at + 1
    fair.n = fair.n - 1
    tenant.left, tenant.state = tenant.weight, nil
    moments_add(fair, tenant.start, tenant.weight)
    tenant_touch(fair, tenant)
    fair.moved = true
  end
end
for _, tenant in ipairs(served) do
  if tenant.taken > 0 then call('ZREMRANGEBYRANK', staging_lane(fair, tenant.name), 0, tenant.taken - 1) end
end
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
local answer = {'ok', promoted, fair.jobs}
for _, tenant in ipairs(served) do
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = tenant.name, int(tenant.weight), tenant.got or 0
end
return answer
