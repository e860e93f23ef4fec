-- The plan rules that hold, read or replaced as a whole.
--
-- rules   hash  rule → document, which only Rust reads; `state` holds their version under `rules`
-- plans   set   all rules that hold or have jobs staged
--
-- ARGV[9…] '' to read; else the version to replace, the new version, number of rules, and for each: name, document, state,
--          restage, latency ms, depth, strict, jobs (0: auto), interval ms or '', most staged or '', life of tags ms or ''
-- Returns  {version, {name, document, …}, {rules that are gone but have jobs staged}}

local WORDS = 11
local version = call('HGET', P .. 'state', 'rules') or ''

local function put(at)
  local fields = {}
  for index, name in ipairs({'state', 'restage', 'latency', 'depth', 'strict', 'jobs', 'every', 'most', 'tag'}) do
    fields[#fields + 1], fields[#fields + 2] = name, ARGV[at + 1 + index]
  end
  local key = P .. 'plan:' .. ARGV[at]
  -- From an interval to a schedule: when the next round is due is decided anew.
  if (call('HGET', key, 'every') or '') ~= '' and ARGV[at + 8] == '' then call('HDEL', key, 'due') end
  call('HSET', P .. 'rules', ARGV[at], ARGV[at + 1])
  call('HSET', key, unpack(fields))
  call('SADD', P .. 'plans', ARGV[at])
end

if #ARGV > 9 and ARGV[9] == version then
  version = ARGV[10]
  call('UNLINK', P .. 'rules')
  for at = 12, 11 + tonumber(ARGV[11]) * WORDS, WORDS do put(at) end
  call('HSET', P .. 'state', 'rules', version)
  signal('rules')
end

-- A rule that is gone stays until its last job is promoted.
local gone = {}
for _, name in ipairs(call('SMEMBERS', P .. 'plans')) do
  if call('HEXISTS', P .. 'rules', name) == 0 then
    local key = P .. 'plan:' .. name
    if (tonumber(call('HGET', key, 'staged') or nil) or 0) > 0 then
      call('HSET', key, 'state', 'draining', 'strict', '0', 'jobs', '0', 'every', '1000', 'paused', '0')
      gone[#gone + 1] = name
    else
      call('UNLINK', key, key .. ':lock', key .. ':rounds', key .. ':queues')
      call('SREM', P .. 'plans', name)
    end
  end
end
commit()
return {version, call('HGETALL', P .. 'rules'), gone}
