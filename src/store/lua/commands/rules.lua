-- Reads the plan rules, or replaces them all.
--
-- rules        hash  rule → document that only Rust reads
-- plans        set   rules in force, and removed rules that still have jobs staged
-- plan:R:own   hash  tenant → weight of its own in rule R
-- state.rules        version of the rules and of the dispatch policy
--
-- ARGV[9…]
--   before   version to replace, or '' to read
--   version  new version
--   rules    number of rules; for each: name, document, values of `FIELDS`, then for each tenant
--            with a weight of its own: name, weight
--
-- The values: state; 1 to restage; latency threshold ms; depth; 1 if strict; jobs per interval (0:
-- auto); interval ms or ''; most staged or ''; TTL of a webhook's weights in ms or ''; 1 to hold
-- tenants that no webhook has weighed; 1 to call a webhook before serving them; most blocked jobs
-- of a tenant; main queue; priority option; default weight; number of tenants with a weight of
-- their own.
--
-- Returns  {version, {name, document, …}, {removed rule that still has jobs, its main queue, …},
--          document of the dispatch policy or ''}

-- Required for its commit phase.
require('staging/plan')

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, send, signal = runtime.commit, runtime.send, runtime.signal
local call = redis.call

local FIELDS = {'state', 'restage', 'latency', 'depth', 'strict', 'jobs', 'every', 'most', 'tag', 'hold', 'ask', 'blocked', 'main', 'priority', 'default',
  'fixed'}

local function run()
  local version = call('HGET', ctx.prefix .. 'state', 'rules') or ''

  -- Stores the rule that begins at argument `at`. Returns the place of the next one.
  local function put(at)
    local name, document = ctx.args[at], ctx.args[at + 1]
    local fields = {}
    for index, field in ipairs(FIELDS) do
      fields[#fields + 1], fields[#fields + 2] = field, ctx.args[at + 1 + index]
    end
    local key = ctx.prefix .. 'plan:' .. name
    -- If an interval was replaced by a cron, the next due time is computed again.
    if (call('HGET', key, 'every') or '') ~= '' and ctx.args[at + 8] == '' then call('HDEL', key, 'due') end
    call('HSET', ctx.prefix .. 'rules', name, document)
    call('HSET', key, unpack(fields))
    call('SADD', ctx.prefix .. 'plans', name)
    call('UNLINK', key .. ':own')
    local own = at + 2 + #FIELDS
    local next_rule = own + tonumber(ctx.args[own - 1]) * 2
    send('HSET', key .. ':own', ctx.args, own, next_rule - 1)
    return next_rule
  end

  local before, new_version, number = unpack(ctx.args, 9, 11)
  if #ctx.args > 9 and before == version then
    version = new_version
    call('UNLINK', ctx.prefix .. 'rules')
    local at = 12
    for _ = 1, tonumber(number) do at = put(at) end
    call('HSET', ctx.prefix .. 'state', 'rules', version)
    signal('rules')
  end

  -- A removed rule drains: it stays until its last job is promoted and delivered.
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
