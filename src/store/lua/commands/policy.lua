-- What holds for dispatch: pools, sharing between tenants, prevention of starvation, limits of the file. Replaced as a whole.
--
-- policy         hash  doc (which only Rust reads), sp (see `dispatch/pool`), patience (the shortest of all rotations), `f Q` or `f *`
--                (how tenants share queue Q, or all: `strategy default_weight`, behind which `isolation` says that only those jobs do
--                that have lanes of their tenants; or `off`), types (limits of types, in their order: `pattern US key RS …`), `i Q`
--                (the pool that has Q alone), `o Q` (all pools that have Q, in their order)
-- pools          set   names of pools; policy:limits set of limits that the file sets
-- state.policy   letters: p there are pools, i isolated ones, f it is said how tenants share queues, o that they do not, x they have
--                slots of their own, t types have limits, s starvation is prevented somewhere, y there were slots, and jobs may hold
--                some; `state.rules` is the version of this and of the plan rules
--
-- ARGV[9…] version to replace, new version, letters, document, sp, limits of types;
--          number of events `scheduling.rebalanced` and for each: its subject, its data;
--          number of queues with a sharing of their own and for each: queue or '*', how, number of weights, then tenant, weight, …;
--          number of pools and for each: name, strategy, queues, weights, concurrency or '', 1 if isolated, sp;
--          number of limits and for each: key, quota
-- Returns  1, or 0 if another version holds

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, int, send, signal = runtime.commit, runtime.emit, runtime.int, runtime.send, runtime.signal
local subject = runtime.subject
local call = redis.call
local match = string.match

local function run()
  local holds = call('HGET', ctx.prefix .. 'state', 'rules') or ''
  if holds == ctx.args[10] then return 1 end -- sent again
  if holds ~= ctx.args[9] then return 0 end
  local POLICY, at = ctx.prefix .. 'policy', 13
  local letters, old_letters = ctx.args[11], ctx.state.policy
  local find = string.find

  local function word()
    at = at + 1
    return ctx.args[at]
  end

  for _, field in ipairs(call('HKEYS', POLICY)) do
    local queue = match(field, '^f (.*)$')
    if queue then call('UNLINK', POLICY .. ':w:' .. queue) end
  end
  local old, types = call('HMGET', POLICY, 'shares', 'types'), word()
  call('UNLINK', POLICY)
  call('HSET', POLICY, 'doc', ctx.args[12], 'sp', ctx.args[13], 'types', types)
  for _ = 1, tonumber(word()) do
    local about = word()
    emit('scheduling.rebalanced', subject(about), word())
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
  -- Whether sharing changed is known by a digest.
  local shares = redis.sha1hex(wire.join_list(ctx.args, first_word, at))
  call('HSET', POLICY, 'shares', shares)
  local function slots_renew(key, tenant, queue)
    local weights = sharings[queue] and queue or '*'
    local strategy, default = match(sharings[weights] or '', '^(%a) (%d+)')
    if strategy == 's' then
      local weight = tonumber(call('HGET', POLICY .. ':w:' .. weights, tenant) or nil) or tonumber(default)
      call('HSET', ctx.prefix .. 'limit:' .. key, 'f', int(math.max(math.floor(weight / 1000), 1)) .. ' - - - -')
    else
      call('HDEL', ctx.prefix .. 'limit:' .. key, 'f', 'j')
    end
    call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, key)
  end
  if old[1] ~= shares and find(letters .. old_letters, '[xy]') then
    for _, key in ipairs(call('ZRANGE', ctx.prefix .. 'limits', 0, -1)) do
      local tenant, queue = match(key, '^%+(.*):([^:]*)$')
      if tenant then slots_renew(key, tenant, queue) end
    end
  end
  if find(old_letters, '[xy]') and not find(letters, 'x', 1, true) then letters = letters .. 'y' end
  -- Jobs that wait may belong in another lane now: see `dispatch/reshard`.
  if old[1] ~= shares or (old[2] or '') ~= types then call('HSET', ctx.prefix .. 'state', 'stale', int(ctx.seq)) end

  -- From when on nobody takes from a queue is known since somebody looks.
  if find(letters, 's', 1, true) and not find(old_letters, 's', 1, true) then
    local live = call('ZRANGE', ctx.prefix .. 'live', 0, -1)
    for _, queue in ipairs(live) do call('ZADD', ctx.prefix .. 'live', ctx.now_text, queue) end
    call('UNLINK', ctx.prefix .. 'starved')
  end

  local owners = {} -- by queue: the pools that have it

  -- A pool that is served in another way begins its turn anew.
  local function pool_put(name, strategy, queues, weights, concurrency, isolated, sp)
    local key = ctx.prefix .. 'pool:' .. name
    local was = call('HMGET', key, 'strategy', 'queues', 'weights', 'concurrency')
    call('HSET', key, 'strategy', strategy, 'queues', queues, 'weights', weights, 'concurrency', concurrency, 'sp', sp, 'isolated',
      isolated)
    if was[2] ~= queues or was[4] ~= concurrency then call('HDEL', key, 'full') end
    if was[1] ~= strategy or was[2] ~= queues or was[3] ~= weights then call('UNLINK', key .. ':turn') end
    for queue in string.gmatch(queues, '%S+') do
      if isolated == '1' then call('HSET', POLICY, 'i ' .. queue, name) end
      owners[queue] = owners[queue] and owners[queue] .. ' ' .. name or name
      signal('ready ' .. queue)
    end
  end

  -- The shortest patience anywhere: before that, nobody starves.
  local patience = tonumber(match(ctx.args[13], '^(%d+)'))
  local kept = {}
  for _ = 1, tonumber(word()) do
    local name = word()
    kept[name] = true
    call('SADD', ctx.prefix .. 'pools', name)
    local strategy, queues, weights, concurrency, isolated, sp = word(), word(), word(), word(), word(), word()
    pool_put(name, strategy, queues, weights, concurrency, isolated, sp)
    local own = tonumber(match(sp, '^(%d+)'))
    if own and (not patience or own < patience) then patience = own end
  end
  if patience then call('HSET', POLICY, 'patience', int(patience)) end
  for queue, names in pairs(owners) do call('HSET', POLICY, 'o ' .. queue, names) end
  for _, name in ipairs(call('SMEMBERS', ctx.prefix .. 'pools')) do
    if not kept[name] then
      local key = ctx.prefix .. 'pool:' .. name
      call('SREM', ctx.prefix .. 'pools', name)
      call('UNLINK', key, key .. ':turn', key .. ':workers')
    end
  end

  local set = {}
  for _ = 1, tonumber(word()) do
    local key, quota = word(), word()
    set[key] = true
    call('HSET', ctx.prefix .. 'limit:' .. key, 'f', quota)
    call('SADD', POLICY .. ':limits', key)
    call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key)
    call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, key)
    call('HSET', ctx.prefix .. 'state', 'limits', '1')
    local queue = match(key, '^#(.*)$')
    if queue then call('SADD', ctx.prefix .. 'limited', queue) end
  end
  for _, key in ipairs(call('SMEMBERS', POLICY .. ':limits')) do
    if not set[key] then
      call('SREM', POLICY .. ':limits', key)
      call('HDEL', ctx.prefix .. 'limit:' .. key, 'f')
      call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, key)
    end
  end
  call('HSET', ctx.prefix .. 'state', 'policy', letters, 'rules', ctx.args[10])
  signal('rules')
  commit()
  return 1
end

return run
