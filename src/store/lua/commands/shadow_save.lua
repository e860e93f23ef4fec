-- Stores the report of a rule in shadow mode, and the rounds that would have run. One process per
-- rule watches.
--
-- plan:R:shadow  hash  holder: the process that watches; call: id of its last call; document, which
--                      only Rust reads; with a TTL
--
-- ARGV[9…]
--   rule      rule
--   holder    this process
--   id        id of this call
--   life      TTL in ms
--   document  the report
--   most      rounds to keep
--   …         documents of rounds, with 0 as their number
--
-- Returns  {'ok'}, {'paused'}, {'gone'}, or {'held', holder, ms left} if another process watches

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local commit, int, signal = runtime.commit, runtime.int, runtime.signal
local call = redis.call

local function run()
  local rule, holder, id, life, document, most = unpack(ctx.args, 9, 14)
  local key = ctx.prefix .. 'plan:' .. rule
  local kept = key .. ':shadow'
  local plan = call('HMGET', key, 'state', 'paused')
  if plan[1] ~= 'shadow' then return {'gone'} end
  local held = call('HMGET', kept, 'holder', 'call')
  if held[1] and held[1] ~= holder then return {'held', held[1], call('PTTL', kept)} end
  if held[2] == id then return {'ok'} end -- a resend
  if plan[2] == '1' then
    call('UNLINK', kept)
    return {'paused'}
  end
  call('HSET', kept, 'holder', holder, 'call', id, 'document', document)
  call('PEXPIRE', kept, life)
  for at = 15, #ctx.args do
    local number = call('HINCRBY', key, 'rounds', 1)
    local record = string.gsub(ctx.args[at], '"round":0', '"round":' .. int(number), 1)
    call('XADD', key .. ':rounds', 'MAXLEN', '~', most, '*', 'n', int(number), 'd', record)
    call('HSET', key, 'recorded', int(number))
  end
  if #ctx.args > 14 then signal('round ' .. rule) end
  commit()
  return {'ok'}
end

return run
