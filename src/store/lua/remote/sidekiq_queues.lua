-- Returns the state of queues of a Sidekiq. Read-only.
--
-- ARGV
--   prefix  prefix of its keys
--   …       queues
--
-- Returns  for each queue: length, payload of the next job or '', 1 if it is paused

local answer = {}
for at = 2, #ARGV do
  local key = ARGV[1] .. 'queue:' .. ARGV[at]
  answer[#answer + 1] = redis.call('LLEN', key)
  answer[#answer + 1] = redis.call('LINDEX', key, -1) or ''
  answer[#answer + 1] = redis.call('SISMEMBER', ARGV[1] .. 'paused', ARGV[at])
end
return answer
