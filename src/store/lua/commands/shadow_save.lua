-- Stores the report of a rule in shadow mode, and the rounds that would have run. One process per
-- rule watches.
--
-- plan:R:shadow  hash  holder: the process that watches; call: id of its last call; document, which
--                      only Rust reads; with a TTL
--
-- Takes
--   rule      string  rule
--   holder    string  this process
--   id        string  id of this call
--   life      number  TTL in ms
--   document  string  the report
--   most      number  rounds to keep
--   rounds    list of string  documents of rounds, with 0 as their number
--
-- Returns  `kept`, `paused`, `gone`, or {elsewhere: {by: string, left_ms: number}} if another process
--          watches

local ctx = require('lib/context')
local packed = require('lib/packed')
local runtime = require('lib/runtime')

local commit, int, signal = runtime.commit, runtime.int, runtime.signal
local write = packed.write
local call = redis.call

local function run()
  local args = packed.read()
  local rule, holder, id = args.rule, args.holder, args.id
  local key = ctx.prefix .. 'plan:' .. rule
  local kept = key .. ':shadow'
  local plan = call('HMGET', key, 'state', 'paused')
  if plan[1] ~= 'shadow' then return write('gone') end
  local held = call('HMGET', kept, 'holder', 'call')
  if held[1] and held[1] ~= holder then return write({elsewhere = {by = held[1], left_ms = math.max(call('PTTL', kept), 0)}}) end
  if held[2] == id then return write('kept') end -- a resend
  if plan[2] == '1' then
    call('UNLINK', kept)
    return write('paused')
  end
  call('HSET', kept, 'holder', holder, 'call', id, 'document', args.document)
  call('PEXPIRE', kept, int(args.life))
  for _, document in ipairs(args.rounds) do
    local number = call('HINCRBY', key, 'rounds', 1)
    local record = string.gsub(document, '"round":0', '"round":' .. int(number), 1)
    call('XADD', key .. ':rounds', 'MAXLEN', '~', args.most, '*', 'n', int(number), 'd', record)
    call('HSET', key, 'recorded', int(number))
  end
  if #args.rounds > 0 then signal('round ' .. rule) end
  commit()
  return write('kept')
end

return run
