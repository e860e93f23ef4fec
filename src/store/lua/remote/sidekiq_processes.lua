-- Returns the processes of a Sidekiq as they last reported. Read-only.
--
-- ARGV
--   prefix  prefix of its keys
--   most    most processes
--
-- Returns  for each process: identity, info (JSON), concurrency or '', busy threads, quiet

local prefix, most = unpack(ARGV)
local call = redis.call

local answer = {}
for _, identity in ipairs(call('SRANDMEMBER', prefix .. 'processes', most)) do
  local reported = call('HMGET', prefix .. identity, 'info', 'concurrency', 'busy', 'quiet')
  if reported[1] then -- of a dead process only the name remains
    answer[#answer + 1] = identity
    for field = 1, 4 do answer[#answer + 1] = reported[field] or '' end
  end
end
return answer
