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
-- Takes
--   before    string  version to replace
--   version   string  new version
--   letters   string  letters of `state.policy`
--   document  string  field `doc` of `policy`
--   sp        string  field of `policy`
--   types     string  field of `policy`
--   events    list of {subject: string, data: string}  `scheduling.rebalanced` events
--   sharings  list of {queue: string, setting: string, weights: list of {string, number}}  queue or
--             '*'; tenants and their weights
--   pools     list of {name: string, strategy: string, queues: string, weights: string, concurrency:
--             number?, isolated: boolean, sp: string}
--   limits    list of {key: string, quota: string}
--
-- Returns  true, or false if another version is in force

local ctx = require('lib/context')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, emit, int, send, signal = runtime.commit, runtime.emit, runtime.int, runtime.send, runtime.signal
local subject = runtime.subject
local call = redis.call
local find, match = string.find, string.match

local POLICY, letters, old_letters

-- Stores the sharing settings. Returns the setting by queue, and a digest of all, to detect
-- changes.
local function put_sharings(list)
  local sharings, words = {}, {#list}
  for _, sharing in ipairs(list) do
    local queue, weights = sharing.queue, {}
    call('HSET', POLICY, 'f ' .. queue, sharing.setting)
    sharings[queue] = sharing.setting
    words[#words + 1], words[#words + 2], words[#words + 3] = queue, sharing.setting, #sharing.weights
    for _, own in ipairs(sharing.weights) do
      local tenant, weight = own[1], int(own[2])
      weights[#weights + 1], weights[#weights + 2] = tenant, weight
      words[#words + 1], words[#words + 2] = tenant, weight
    end
    send('HSET', POLICY .. ':w:' .. queue, weights)
  end
  local digest = redis.sha1hex(wire.join_list(words))
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
local function put_pool(owners, pool)
  local name, strategy, queues, weights = pool.name, pool.strategy, pool.queues, pool.weights
  local key, concurrency = ctx.prefix .. 'pool:' .. name, pool.concurrency and int(pool.concurrency) or ''
  local was = call('HMGET', key, 'strategy', 'queues', 'weights', 'concurrency')
  call('SADD', ctx.prefix .. 'pools', name)
  call('HSET', key, 'strategy', strategy, 'queues', queues, 'weights', weights, 'concurrency', concurrency, 'sp', pool.sp, 'isolated',
    pool.isolated and '1' or '0')
  if was[2] ~= queues or was[4] ~= concurrency then call('HDEL', key, 'full') end
  if was[1] ~= strategy or was[2] ~= queues or was[3] ~= weights then call('UNLINK', key .. ':turn') end
  for queue in string.gmatch(queues, '%S+') do
    if pool.isolated then call('HSET', POLICY, 'i ' .. queue, name) end
    owners[queue] = owners[queue] and owners[queue] .. ' ' .. name or name
    signal('ready ' .. queue)
  end
end

local function put_pools(list, default_sp)
  -- No queue starves before the shortest patience of all.
  local patience = tonumber(match(default_sp, '^(%d+)'))
  local kept, owners = {}, {}
  for _, pool in ipairs(list) do
    kept[pool.name] = true
    put_pool(owners, pool)
    local own = tonumber(match(pool.sp, '^(%d+)'))
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

local function put_limits(list)
  local kept = {}
  for _, limit in ipairs(list) do
    local key = limit.key
    kept[key] = true
    call('HSET', ctx.prefix .. 'limit:' .. key, 'f', limit.quota)
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
  local args, stored = packed.read(), call('HGET', ctx.prefix .. 'state', 'rules') or ''
  if stored == args.version then return packed.write(true) end -- a resend
  if stored ~= args.before then return packed.write(false) end
  POLICY, letters, old_letters = ctx.prefix .. 'policy', args.letters, ctx.state.policy

  for _, field in ipairs(call('HKEYS', POLICY)) do
    local queue = match(field, '^f (.*)$')
    if queue then call('UNLINK', POLICY .. ':w:' .. queue) end
  end
  local old, types = call('HMGET', POLICY, 'shares', 'types'), args.types
  call('UNLINK', POLICY)
  call('HSET', POLICY, 'doc', args.document, 'sp', args.sp, 'types', types)
  for _, event in ipairs(args.events) do emit('scheduling.rebalanced', subject(event.subject), event.data) end

  local sharings, shares = put_sharings(args.sharings)
  if old[1] ~= shares then renew_all_slots(sharings) end
  if find(old_letters, '[xy]') and not find(letters, 'x', 1, true) then letters = letters .. 'y' end
  -- Waiting jobs may belong to other lanes now: `dispatch/reshard`.
  if old[1] ~= shares or (old[2] or '') ~= types then call('HSET', ctx.prefix .. 'state', 'stale', int(ctx.seq)) end
  if find(letters, 's', 1, true) and not find(old_letters, 's', 1, true) then begin_starvation_prevention() end
  put_pools(args.pools, args.sp)
  put_limits(args.limits)
  call('HSET', ctx.prefix .. 'state', 'policy', letters, 'rules', args.version)
  signal('rules')
  commit()
  return packed.write(true)
end

return run
