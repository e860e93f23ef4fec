-- Returns the processes of a Sidekiq as they last reported. Read-only.
--
-- ARGV
--   prefix  prefix of its keys
--   most    most processes
--
-- Returns  for each process: identity, info (JSON), concurrency or '', busy threads, quiet

local answer = {}
for _, identity in ipairs(redis.call('SRANDMEMBER', ARGV[1] .. 'processes', ARGV[2])) do
  local told = redis.call('HMGET', ARGV[1] .. identity, 'info', 'concurrency', 'busy', 'quiet')
  if told[1] then -- of a dead process only the name remains
    answer[#answer + 1] = identity
    for field = 1, 4 do answer[#answer + 1] = told[field] or '' end
  end
end
return answer
