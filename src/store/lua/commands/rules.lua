-- Reads the plan rules, or replaces them all.
--
-- rules        hash  rule → document that only Rust reads
-- plans        set   rules in force, and removed rules that still have jobs staged
-- plan:R:own   hash  tenant → weight of its own in rule R
-- state.rules        version of the rules and of the dispatch policy
--
-- Takes
--   replace  nil to read, else
--     before   string  version to replace
--     version  string  new version
--     rules    list of
--       name      string
--       document  string
--       fields    map of string to string  see below
--       weights   list of {string, string}  tenants and their own weights
--
-- Fields of plan:R: `state`; `restage`, 1 to restage; `latency`, the threshold in ms; `depth`;
-- `strict`, 1 if strict; `jobs` per interval, 0 for auto; `every`, the interval in ms or '' for a
-- cron; `most` staged or ''; `tag`, the TTL of a webhook's weights in ms or ''; `hold`, 1 to hold
-- tenants that no webhook has weighed; `ask`, 1 to call a webhook before serving them; `blocked`,
-- most blocked jobs of a tenant; `main`, the main queue; `priority`, the option; `default`, the
-- default weight; `fixed`, the number of tenants with a weight of their own.
--
-- Returns
--   version    string  or ''
--   documents  list of {string, string}  rules and their documents
--   draining   list of {string, string}  removed rules that still have jobs, and their main queues
--   policy     string  document of the dispatch policy, or ''

-- Required for its commit phase.
require('staging/plan')

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, send, signal = runtime.commit, runtime.send, runtime.signal
local call = redis.call

local function put(rule)
  local key = ctx.prefix .. 'plan:' .. rule.name
  local fields, weights = {}, {}
  for field, text in pairs(rule.fields) do fields[#fields + 1], fields[#fields + 2] = field, text end
  for _, own in ipairs(rule.weights) do weights[#weights + 1], weights[#weights + 2] = own[1], own[2] end
  -- If an interval was replaced by a cron, the next due time is computed again.
  if (call('HGET', key, 'every') or '') ~= '' and rule.fields.every == '' then call('HDEL', key, 'due') end
  call('HSET', ctx.prefix .. 'rules', rule.name, rule.document)
  call('HSET', key, unpack(fields))
  call('SADD', ctx.prefix .. 'plans', rule.name)
  call('UNLINK', key .. ':own')
  send('HSET', key .. ':own', weights)
end

-- Lets removed rules drain: each stays until its last job is promoted and delivered. Returns those
-- that still have jobs.
local function drain()
  local draining = {}
  for _, name in ipairs(call('SMEMBERS', ctx.prefix .. 'plans')) do
    if call('HEXISTS', ctx.prefix .. 'rules', name) == 0 then
      local key = ctx.prefix .. 'plan:' .. name
      if (tonumber(call('HGET', key, 'staged') or nil) or 0) > 0 or call('EXISTS', ctx.prefix .. 'outbox:' .. name) == 1 then
        call('HSET', key, 'state', 'draining', 'strict', '0', 'jobs', '0', 'every', '1000', 'paused', '0',
          'tag', '', 'hold', '0', 'ask', '0', 'default', '1000', 'fixed', '0')
        draining[#draining + 1] = {name, call('HGET', key, 'main') or 'builtin'}
      else
        call('UNLINK', key, key .. ':own', key .. ':lock', key .. ':rounds', key .. ':queues', key .. ':shadow')
        call('SREM', ctx.prefix .. 'plans', name)
      end
    end
  end
  return draining
end

local function run()
  local version, replace = call('HGET', ctx.prefix .. 'state', 'rules') or '', packed.read().replace
  if replace and replace.before == version then
    version = replace.version
    call('UNLINK', ctx.prefix .. 'rules')
    for _, rule in ipairs(replace.rules) do put(rule) end
    call('HSET', ctx.prefix .. 'state', 'rules', version)
    signal('rules')
  end
  local draining, documents, stored = drain(), {}, call('HGETALL', ctx.prefix .. 'rules')
  for place = 1, #stored, 2 do documents[#documents + 1] = {stored[place], stored[place + 1]} end
  commit()
  return packed.write({version = version, documents = documents, draining = draining,
    policy = call('HGET', ctx.prefix .. 'policy', 'doc') or ''})
end

return run
