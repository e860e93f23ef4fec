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

-- Modules that only take part.
require('staging/plan')

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, send, signal = runtime.commit, runtime.send, runtime.signal
local call = redis.call

local FIELDS = {'state', 'restage', 'latency', 'depth', 'strict', 'jobs', 'every', 'most', 'tag', 'hold', 'ask', 'blocked', 'main', 'priority', 'default',
  'fixed'}

local function run()
  local version = call('HGET', ctx.prefix .. 'state', 'rules') or ''

  -- Puts the rule at an argument; returns where the next one is.
  local function put(at)
    local fields = {}
    for index, name in ipairs(FIELDS) do
      fields[#fields + 1], fields[#fields + 2] = name, ctx.args[at + 1 + index]
    end
    local key = ctx.prefix .. 'plan:' .. ctx.args[at]
    -- From an interval to a schedule: when the next round is due is decided anew.
    if (call('HGET', key, 'every') or '') ~= '' and ctx.args[at + 8] == '' then call('HDEL', key, 'due') end
    call('HSET', ctx.prefix .. 'rules', ctx.args[at], ctx.args[at + 1])
    call('HSET', key, unpack(fields))
    call('SADD', ctx.prefix .. 'plans', ctx.args[at])
    call('UNLINK', key .. ':own')
    local own = at + 2 + #FIELDS
    local next_rule = own + tonumber(ctx.args[own - 1]) * 2
    send('HSET', key .. ':own', ctx.args, own, next_rule - 1)
    return next_rule
  end

  if #ctx.args > 9 and ctx.args[9] == version then
    version = ctx.args[10]
    call('UNLINK', ctx.prefix .. 'rules')
    local at = 12
    for _ = 1, tonumber(ctx.args[11]) do at = put(at) end
    call('HSET', ctx.prefix .. 'state', 'rules', version)
    signal('rules')
  end

  -- A rule that is gone stays until its last job is promoted and has arrived.
  local gone = {}
  for _, name in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    if call('HEXISTS', ctx.prefix .. 'rules', name) == 0 then
      local key = ctx.prefix .. 'plan:' .. name
      if (tonumber(call('HGET', key, 'staged') or nil) or 0) > 0 or call('EXISTS', ctx.prefix .. 'outbox:' .. name) == 1 then
        call('HSET', key, 'state', 'draining', 'strict', '0', 'jobs', '0', 'every', '1000', 'paused', '0',
          'tag', '', 'hold', '0', 'ask', '0', 'default', '1000', 'fixed', '0')
        gone[#gone + 1], gone[#gone + 2] = name, call('HGET', key, 'main') or 'builtin'
      else
        call('UNLINK', key, key .. ':own', key .. ':lock', key .. ':rounds', key .. ':queues', key .. ':shadow')
        call('SREM', ctx.prefix .. 'plans', name)
      end
    end
  end
  commit()
  return {version, call('HGETALL', ctx.prefix .. 'rules'), gone, call('HGET', ctx.prefix .. 'policy', 'doc') or ''}
end

return run
