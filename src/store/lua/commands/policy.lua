-- Replaces the dispatch policy: pools, sharing between tenants, starvation prevention, and limits
-- of the file.
--
-- policy         hash  see below
-- policy:w:Q     hash  weights of tenants in queue Q, in thousandths; `policy:w:*` for all queues
-- policy:limits  set   limits that the file sets
-- pools          set   names of pools
-- pool:N         hash  `dispatch/pool`
--
-- Fields of `policy`:
--   doc       document that only Rust reads
--   sp        default starvation prevention (`dispatch/pool`)
--   patience  the shortest rotation of all pools in ms
--   f Q, f *  sharing of queue Q, or of all queues: `strategy default_weight`, followed by
--             `isolation` if only jobs with lanes of their tenant take turns; or `off`
--   types     limits of types in their order: `pattern US key RS …`
--   i Q       the pool to which isolated queue Q belongs
--   o Q       all pools that serve Q, in their order
--   shares    digest of the sharing settings, to detect changes
--
-- Letters of `state.policy`:
--   p  there are pools
--   i  there are isolated pools
--   f  queues are shared between tenants
--   o  sharing is switched off for a queue
--   x  tenants have slots of their own
--   y  there were such slots, and active jobs may hold some
--   t  types have limits
--   s  starvation prevention is on
--
-- `state.rules` is the version of the policy and of the plan rules together.
--
-- ARGV[9…]
--   before, version      version to replace; new version
--   letters              letters of `state.policy`
--   document, sp, types  fields of `policy`
--   events               number of `scheduling.rebalanced` events; for each: subject, data
--   sharings             number of sharing settings; for each: queue or '*', setting, number of
--                        weights, then tenant and weight of each
--   pools                number of pools; for each: name, strategy, queues, weights, concurrency or
--                        '', 1 if isolated, sp
--   limits               number of limits; for each: key, quota
--
-- Returns  1, or 0 if another version is in force

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, int, send, signal = runtime.commit, runtime.emit, runtime.int, runtime.send, runtime.signal
local subject = runtime.subject
local call = redis.call
local find, match = string.find, string.match

local POLICY, letters, old_letters
local at -- place of the last argument that was read

-- Returns the next argument.
local function word()
  at = at + 1
  return ctx.args[at]
end

-- Stores the sharing settings. Returns the setting by queue, and a digest of all, to detect
-- changes.
local function put_sharings()
  local sharings, first_word = {}, at + 1
  for _ = 1, tonumber(word()) do
    local queue, how, weights = word(), word(), {}
    call('HSET', POLICY, 'f ' .. queue, how)
    sharings[queue] = how
    for index = 1, tonumber(word()) * 2 do weights[index] = word() end
    send('HSET', POLICY .. ':w:' .. queue, weights)
  end
  local digest = redis.sha1hex(wire.join_list(ctx.args, first_word, at))
  call('HSET', POLICY, 'shares', digest)
  return sharings, digest
end

-- Computes the slots of a tenant in a queue, and examines the lanes that wait for one.
local function renew_slots(sharings, key, tenant, queue)
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

-- Waiting tenants get their new weights when their level is next used (`fairness/level`), but slots
-- that tenants have of their own are computed here.
local function renew_all_slots(sharings)
  if not find(letters .. old_letters, '[xy]') then return end
  for _, key in ipairs(call('ZRANGE', ctx.prefix .. 'limits', 0, -1)) do
    local tenant, queue = match(key, '^%+(.*):([^:]*)$')
    if tenant then renew_slots(sharings, key, tenant, queue) end
  end
end

-- `live` is kept as the time of the last dispatch only while starvation prevention is on, so it
-- starts now.
local function begin_starvation_prevention()
  local live = call('ZRANGE', ctx.prefix .. 'live', 0, -1)
  for _, queue in ipairs(live) do call('ZADD', ctx.prefix .. 'live', ctx.now_text, queue) end
  call('UNLINK', ctx.prefix .. 'starved')
end

-- Stores a pool. If its strategy, queues or weights changed, its turn starts again. `owners` has by
-- queue the pools that serve it.
local function put_pool(owners, name, strategy, queues, weights, concurrency, isolated, sp)
  local key = ctx.prefix .. 'pool:' .. name
  local was = call('HMGET', key, 'strategy', 'queues', 'weights', 'concurrency')
  call('SADD', ctx.prefix .. 'pools', name)
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

local function put_pools(default_sp)
  -- No queue starves before the shortest patience of all.
  local patience = tonumber(match(default_sp, '^(%d+)'))
  local kept, owners = {}, {}
  for _ = 1, tonumber(word()) do
    local name, strategy, queues, weights, concurrency, isolated, sp = word(), word(), word(), word(), word(), word(), word()
    kept[name] = true
    put_pool(owners, name, strategy, queues, weights, concurrency, isolated, sp)
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
end

local function put_limits()
  local kept = {}
  for _ = 1, tonumber(word()) do
    local key, quota = word(), word()
    kept[key] = true
    call('HSET', ctx.prefix .. 'limit:' .. key, 'f', quota)
    call('SADD', POLICY .. ':limits', key)
    call('ZADD', ctx.prefix .. 'limits', ctx.now_text, key)
    call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, key)
    call('HSET', ctx.prefix .. 'state', 'limits', '1')
    local queue = match(key, '^#(.*)$')
    if queue then call('SADD', ctx.prefix .. 'limited', queue) end
  end
  for _, key in ipairs(call('SMEMBERS', POLICY .. ':limits')) do
    if not kept[key] then
      call('SREM', POLICY .. ':limits', key)
      call('HDEL', ctx.prefix .. 'limit:' .. key, 'f')
      call('ZADD', ctx.prefix .. 'wakes', ctx.now_text, key)
    end
  end
end

local function run()
  local stored = call('HGET', ctx.prefix .. 'state', 'rules') or ''
  local before, version, new_letters, document, default_sp = unpack(ctx.args, 9, 13)
  if stored == version then return 1 end -- a resend
  if stored ~= before then return 0 end
  POLICY, letters, old_letters, at = ctx.prefix .. 'policy', new_letters, ctx.state.policy, 13

  for _, field in ipairs(call('HKEYS', POLICY)) do
    local queue = match(field, '^f (.*)$')
    if queue then call('UNLINK', POLICY .. ':w:' .. queue) end
  end
  local old, types = call('HMGET', POLICY, 'shares', 'types'), word()
  call('UNLINK', POLICY)
  call('HSET', POLICY, 'doc', document, 'sp', default_sp, 'types', types)
  for _ = 1, tonumber(word()) do
    local about = word()
    emit('scheduling.rebalanced', subject(about), word())
  end

  local sharings, shares = put_sharings()
  if old[1] ~= shares then renew_all_slots(sharings) end
  if find(old_letters, '[xy]') and not find(letters, 'x', 1, true) then letters = letters .. 'y' end
  -- Waiting jobs may belong to other lanes now: `dispatch/reshard`.
  if old[1] ~= shares or (old[2] or '') ~= types then call('HSET', ctx.prefix .. 'state', 'stale', int(ctx.seq)) end
  if find(letters, 's', 1, true) and not find(old_letters, 's', 1, true) then begin_starvation_prevention() end
  put_pools(default_sp)
  put_limits()
  call('HSET', ctx.prefix .. 'state', 'policy', letters, 'rules', version)
  signal('rules')
  commit()
  return 1
end

return run
