-- How queues of a Sidekiq are. Changes nothing.
--
-- ARGV     prefix of its keys, queues
-- Returns  for each queue: jobs that wait, the payload of the one that is next or '', 1 if it is paused

local answer = {}
for at = 2, #ARGV do
  local key = ARGV[1] .. 'queue:' .. ARGV[at]
  answer[#answer + 1] = redis.call('LLEN', key)
  answer[#answer + 1] = redis.call('LINDEX', key, -1) or ''
  answer[#answer + 1] = redis.call('SISMEMBER', ARGV[1] .. 'paused', ARGV[at])
end
return answer
