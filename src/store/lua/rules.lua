-- The plan rules that hold, read or replaced as a whole.
--
-- rules   hash  rule → document, which only Rust reads; `state` holds their version under `rules`
-- plans   set   all rules that hold or have jobs staged
-- plan:R:own  hash  tenants' own weights in rule R
--
-- ARGV[9…] '' to read; else the version to replace, the new version, number of rules, and for each: name, document, state,
--          restage, latency ms, depth, strict, jobs (0: auto), interval ms or '', most staged or '', life of tags ms or '', 1 if
--          tenants that no webhook has weighed yet are held, 1 if a webhook is asked before they are served, most blocked jobs of a tenant, main queue, what priorities are compared across, default weight, number of tenants with a weight of their own, and
--          for each of those: tenant, weight
-- Returns  {version, {name, document, …}, {rule that is gone but has jobs staged, its main queue, …}, document of the dispatch policy or ''}

local FIELDS = {'state', 'restage', 'latency', 'depth', 'strict', 'jobs', 'every', 'most', 'tag', 'hold', 'ask', 'blocked', 'main', 'priority', 'default',
  'fixed'}

run = function()
  local version = call('HGET', P .. 'state', 'rules') or ''

  -- Puts the rule at an argument; returns where the next one is.
  local function put(at)
    local fields = {}
    for index, name in ipairs(FIELDS) do
      fields[#fields + 1], fields[#fields + 2] = name, ARGV[at + 1 + index]
    end
    local key = P .. 'plan:' .. ARGV[at]
    -- From an interval to a schedule: when the next round is due is decided anew.
    if (call('HGET', key, 'every') or '') ~= '' and ARGV[at + 8] == '' then call('HDEL', key, 'due') end
    call('HSET', P .. 'rules', ARGV[at], ARGV[at + 1])
    call('HSET', key, unpack(fields))
    call('SADD', P .. 'plans', ARGV[at])
    call('UNLINK', key .. ':own')
    local own = at + 2 + #FIELDS
    local next_rule = own + tonumber(ARGV[own - 1]) * 2
    send('HSET', key .. ':own', ARGV, own, next_rule - 1)
    return next_rule
  end

  if #ARGV > 9 and ARGV[9] == version then
    version = ARGV[10]
    call('UNLINK', P .. 'rules')
    local at = 12
    for _ = 1, tonumber(ARGV[11]) do at = put(at) end
    call('HSET', P .. 'state', 'rules', version)
    signal('rules')
  end

  -- A rule that is gone stays until its last job is promoted and has arrived.
  local gone = {}
  for _, name in ipairs(call('SMEMBERS', P .. 'plans')) do
    if call('HEXISTS', P .. 'rules', name) == 0 then
      local key = P .. 'plan:' .. name
      if (tonumber(call('HGET', key, 'staged') or nil) or 0) > 0 or call('EXISTS', P .. 'outbox:' .. name) == 1 then
        call('HSET', key, 'state', 'draining', 'strict', '0', 'jobs', '0', 'every', '1000', 'paused', '0',
          'tag', '', 'hold', '0', 'ask', '0', 'default', '1000', 'fixed', '0')
        gone[#gone + 1], gone[#gone + 2] = name, call('HGET', key, 'main') or 'builtin'
      else
        call('UNLINK', key, key .. ':own', key .. ':lock', key .. ':rounds', key .. ':queues', key .. ':shadow')
        call('SREM', P .. 'plans', name)
      end
    end
  end
  commit()
  return {version, call('HGETALL', P .. 'rules'), gone, call('HGET', P .. 'policy', 'doc') or ''}
end
