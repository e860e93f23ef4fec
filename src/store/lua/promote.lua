-- Promotes staged jobs into the main queue: as many as wanted, in the order that is fair now.
--
-- ARGV[9…] rule, token of the lock, queue, how many, call id, 1 if this call is sent again
-- Returns  {'ok', promoted, jobs left, tenant, weight, jobs of it promoted, …}, {'lost'} if the lock is another's, or {'paused'};
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

  -- A staged job's record: attempt, created, what stays of the changing part, and marks. Most have not run yet, nor waited for
  -- anything else, and are told by a pattern without captures of what is empty.
  local FRESH = '^pending\0310\31%d*\31(%d*)\31\31\31\31\31\31\31\31\31\31\31\31\31s\30()'
  local STAGED = '^pending\31([^\31]*)\31[^\31]*\31([^\31]*)\31[^\31]*\31([^\30]*)\31([^\31\30]*)\30()'
  -- What does not change: queue, type, lane, the plan, and where what is left of the further fields begins.
  local PLACE = '^([^\31]*)\31([^\31]*)\31([^\31]*)\31rule\31[^\31]*\31tenant\31[^\31]*\31()'
  local sub, byte = string.sub, string.byte

  -- Whether further fields may hold one of those that matter here. A value of that name is taken for one, to no harm.
  local function is_special(text, at)
    if byte(text, at) == 30 then return false end
    local more = sub(text, at, find(text, '\30', at, true))
    return find(more, 'priority\31', 1, true) or find(more, 'trace\31', 1, true) or find(more, 'expires\31', 1, true)
      or find(more, 'total\31', 1, true) or find(more, 'ttl\31', 1, true)
  end

  local lanes, moved, moved_of, shares = {}, 0, {}, queue_sharing(queue)

  -- Makes a staged job available; false if there is none. Most jobs have nothing but their place changed, without a table of
  -- all their fields; the others go the way of all jobs.
  local function release(id, tenant)
    local key = P .. 'job:' .. id
    local text = call('GET', key)
    if not text then return false end
    local attempt, kept, marks = '0', '\31\31\31\31\31\31\31\31\31\31', ''
    local created, rest = match(text, FRESH)
    if not created then
      attempt, created, kept, marks, rest = match(text, STAGED)
      if not attempt or not find(marks, 's', 1, true) then return false end
      marks = string.gsub(marks, 's', '')
    end
    local of_queue, kind, lane, at = match(text, PLACE, rest)
    if of_queue ~= queue or shares or find(lane, ';', 1, true) or is_special(text, at) then
      job_release(job_load(id))
      return true
    end
    seq = seq + 1
    call('SET', key, 'available\31' .. attempt .. '\31' .. int(seq) .. '\31' .. created .. '\31' .. now_text .. '\31' .. kept
      .. '\31' .. marks .. '\30' .. sub(text, rest))
    local pushes, score = lanes[lane], int(lane_score(0, seq))
    if not pushes then
      pushes = {lowest = score}
      lanes[lane] = pushes
    end
    pushes[#pushes + 1] = score
    pushes[#pushes + 1] = id
    log[#log + 1] = 'job.enqueued\31' .. id .. '\31' .. kind .. '\31' .. queue .. '\31\31"state":"available"'
    moved = moved + 1
    moved_of[tenant.name] = (moved_of[tenant.name] or 0) + 1
    return true
  end

  -- What `release` has gathered.
  local function push_released()
    for lane, pushes in pairs(lanes) do
      send('ZADD', P .. 'lane:' .. queue .. ':' .. lane, pushes)
      if call('ZADD', P .. 'ready:' .. queue, 'LT', pushes.lowest, lane) == 1 then queue_woke(queue) end
    end
    if moved > 0 then
      count(queue, 'pending', -moved)
      count(queue, 'available', moved)
    end
    for name, by in pairs(moved_of) do
      tally(name, 'pending', -by)
      tally(name, 'available', by)
    end
  end

  -- Promotes a tenant's next job; false if it has none. Ids are read in portions that grow, one more than needed: that tells
  -- whether the last one is out.
  local function promote_next(tenant)
    while true do
      if not tenant.ids then
        tenant.ids = call('ZRANGE', staging_lane(fair, tenant.name), '0', '1')
        tenant.at, tenant.taken, tenant.all = 1, 0, #tenant.ids < 2
      elseif tenant.at > #tenant.ids and not tenant.all then
        local taken, portion = tenant.taken, math.min(tenant.taken * 4, 64)
        tenant.ids = call('ZRANGE', staging_lane(fair, tenant.name), int(taken), int(taken + portion - 1))
        tenant.at, tenant.all = 1, #tenant.ids < portion
      end
      local id = tenant.ids[tenant.at]
      if not id then return false end
      tenant.at, tenant.taken = tenant.at + 1, tenant.taken + 1
      if release(id, tenant) then return true end
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

  pick_open(fair, want)
  while promoted < want do
    local tenant, window = pick(fair)
    if not tenant then break end
    if is_stuck(plan, queue, tenant.name) then
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
  push_released()
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
  local answer = {'ok', promoted, fair.jobs}
  for _, tenant in ipairs(served) do
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3] = tenant.name, weight_text(tenant.weight), tenant.got or 0
  end
  return answer
end
