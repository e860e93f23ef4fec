-- What holds for dispatch: pools, sharing between tenants, prevention of starvation, limits of the file. Replaced as a whole.
--
-- policy         hash  doc (which only Rust reads), sp (see `pool.lua`), patience (the shortest of all rotations), `f Q` (see
--                `level.lua`), `i Q` (the pool that has Q alone)
-- pools          set   names of pools; policy:limits set of limits that the file sets
-- state.policy   letters: p there are pools, i isolated ones, f tenants share queues, x with slots of their own, s starvation is
--                prevented somewhere, y there were slots, and jobs may hold some; `state.rules` is the version of this and of the
--                plan rules
--
-- ARGV[9…] version to replace, new version, letters, document, sp, 1 to tell of changes, what holds for all pools and queues as text;
--          number of queues with a sharing of their own and for each: queue or '*', `strategy default`, number of weights, then
--          tenant, weight, …;
--          number of pools and for each: name, strategy, queues, weights, concurrency or '', 1 if isolated, sp, sharing as text;
--          number of limits and for each: key, quota
-- Returns  1, or 0 if another version holds

run = function()
  local holds = call('HGET', P .. 'state', 'rules') or ''
  if holds == ARGV[10] then return 1 end -- sent again
  if holds ~= ARGV[9] then return 0 end
  local POLICY, at = P .. 'policy', 14
  local letters, old_letters, tells = ARGV[11], state.policy, ARGV[14] == '1'
  local find = string.find

  local function word()
    at = at + 1
    return ARGV[at]
  end

  for _, field in ipairs(call('HKEYS', POLICY)) do
    local queue = match(field, '^f (.*)$')
    if queue then call('UNLINK', POLICY .. ':w:' .. queue) end
  end
  local old = call('HMGET', POLICY, 'shares', 'all')
  local all = word()
  call('UNLINK', POLICY)
  call('HSET', POLICY, 'doc', ARGV[12], 'sp', ARGV[13], 'all', all)

  -- What holds for all has no strategy by which queues are chosen.
  if tells and old[2] ~= all and not (all == '' and not old[2]) then
    emit('scheduling.rebalanced', subject(''), '"pool":null,"previous_strategy":null,"new_strategy":null')
  end

  local sharings, first_word = {}, at + 1
  for _ = 1, tonumber(word()) do
    local queue, how, weights = word(), word(), {}
    call('HSET', POLICY, 'f ' .. queue, how)
    sharings[queue] = how
    for index = 1, tonumber(word()) * 2 do weights[index] = word() end
    send('HSET', POLICY .. ':w:' .. queue, weights)
  end

  -- Tenants are weighed anew by whoever looks at them next. Slots of their own are counted anew here, and who waits for one is woken.
  local shares = redis.sha1hex(concat(ARGV, '\31', first_word, at))
  call('HSET', POLICY, 'shares', shares)
  local function slots_renew(key, tenant, queue)
    local weights = sharings[queue] and queue or '*'
    local strategy, default = match(sharings[weights] or '', '^(%a) (%d+)$')
    if strategy == 's' then
      local weight = tonumber(call('HGET', POLICY .. ':w:' .. weights, tenant) or nil) or tonumber(default)
      call('HSET', P .. 'limit:' .. key, 'f', int(math.max(math.floor(weight / 1000), 1)) .. ' - - - -')
    else
      call('HDEL', P .. 'limit:' .. key, 'f')
    end
    call('ZADD', P .. 'wakes', now_text, key)
  end
  if old[1] ~= shares and find(letters .. old_letters, '[xy]') then
    for _, key in ipairs(call('ZRANGE', P .. 'limits', 0, -1)) do
      local tenant, queue = match(key, '^tenant:(.*):queue:([^:]*)$')
      if tenant then slots_renew(key, tenant, queue) end
    end
  end
  if find(old_letters, '[xy]') and not find(letters, 'x', 1, true) then letters = letters .. 'y' end

  -- From when on nobody takes from a queue is known since somebody looks.
  if find(letters, 's', 1, true) and not find(old_letters, 's', 1, true) then
    local live = call('ZRANGE', P .. 'live', 0, -1)
    for _, queue in ipairs(live) do call('ZADD', P .. 'live', now_text, queue) end
    call('UNLINK', P .. 'starved')
  end

  -- A pool that is served in another way begins its turn anew, and whoever watches hears of it.
  local function pool_put(name, strategy, queues, weights, concurrency, isolated, sp, sharing)
    local key = P .. 'pool:' .. name
    local was = call('HMGET', key, 'strategy', 'queues', 'weights', 'concurrency', 'sp', 'isolated', 'sharing')
    call('HSET', key, 'strategy', strategy, 'queues', queues, 'weights', weights, 'concurrency', concurrency, 'sp', sp, 'isolated',
      isolated, 'sharing', sharing)
    if was[2] ~= queues or was[4] ~= concurrency then call('HDEL', key, 'full') end
    if was[1] ~= strategy or was[2] ~= queues or was[3] ~= weights then call('UNLINK', key .. ':turn') end
    for queue in string.gmatch(queues, '%S+') do
      if isolated == '1' then call('HSET', POLICY, 'i ' .. queue, name) end
      signal('ready ' .. queue)
    end
    local same = was[1] == strategy and was[2] == queues and was[3] == weights and was[4] == concurrency and was[5] == sp
      and was[6] == isolated and was[7] == sharing
    if tells and not same then
      emit('scheduling.rebalanced', subject(''), '"pool":"' .. name .. '","previous_strategy":'
        .. (was[1] and '"' .. was[1] .. '"' or 'null') .. ',"new_strategy":"' .. strategy .. '"')
    end
  end

  -- The shortest patience anywhere: before that, nobody starves.
  local patience = tonumber(match(ARGV[13], '^(%d+)'))
  local kept = {}
  for _ = 1, tonumber(word()) do
    local name = word()
    kept[name] = true
    call('SADD', P .. 'pools', name)
    local strategy, queues, weights, concurrency, isolated, sp, sharing = word(), word(), word(), word(), word(), word(), word()
    pool_put(name, strategy, queues, weights, concurrency, isolated, sp, sharing)
    local own = tonumber(match(sp, '^(%d+)'))
    if own and (not patience or own < patience) then patience = own end
  end
  if patience then call('HSET', POLICY, 'patience', int(patience)) end
  for _, name in ipairs(call('SMEMBERS', P .. 'pools')) do
    if not kept[name] then
      local key = P .. 'pool:' .. name
      if tells then
        emit('scheduling.rebalanced', subject(''), '"pool":"' .. name .. '","previous_strategy":"'
          .. (call('HGET', key, 'strategy') or '') .. '","new_strategy":null')
      end
      call('SREM', P .. 'pools', name)
      call('UNLINK', key, key .. ':turn', key .. ':workers')
    end
  end

  local set = {}
  for _ = 1, tonumber(word()) do
    local key, quota = word(), word()
    set[key] = true
    call('HSET', P .. 'limit:' .. key, 'f', quota)
    call('SADD', POLICY .. ':limits', key)
    call('ZADD', P .. 'limits', now_text, key)
    call('ZADD', P .. 'wakes', now_text, key)
    call('HSET', P .. 'state', 'limits', '1')
    local queue = match(key, '^queue:(.*)$')
    if queue then call('SADD', P .. 'limited', queue) end
  end
  for _, key in ipairs(call('SMEMBERS', POLICY .. ':limits')) do
    if not set[key] then
      call('SREM', POLICY .. ':limits', key)
      call('HDEL', P .. 'limit:' .. key, 'f')
      call('ZADD', P .. 'wakes', now_text, key)
    end
  end
  call('HSET', P .. 'state', 'policy', letters, 'rules', ARGV[10])
  signal('rules')
  commit()
  return 1
end
