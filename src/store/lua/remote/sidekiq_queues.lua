-- Returns the state of queues of a Sidekiq. Read-only.
--
-- ARGV
--   prefix  prefix of its keys
--   …       queues
--
-- Returns  for each queue: length, payload of the next job or '', 1 if it is paused

local prefix = ARGV[1]
local call = redis.call

local answer = {}
for at = 2, #ARGV do
  local key = prefix .. 'queue:' .. ARGV[at]
  answer[#answer + 1] = call('LLEN', key)
  answer[#answer + 1] = call('LINDEX', key, -1) or ''
  answer[#answer + 1] = call('SISMEMBER', prefix .. 'paused', ARGV[at])
end
return answer
