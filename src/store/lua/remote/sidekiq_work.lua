-- Returns the running jobs of a Sidekiq as its processes last reported. Read-only.
--
-- ARGV
--   prefix  prefix of its keys
--   most    most processes
--
-- Returns  {JSON of each running job, …}

local answer = {}
for _, identity in ipairs(redis.call('SRANDMEMBER', ARGV[1] .. 'processes', ARGV[2])) do
  for _, suffix in ipairs({':work', ':workers'}) do -- Sidekiq 7 and 8; Sidekiq 6
    for _, work in ipairs(redis.call('HVALS', ARGV[1] .. identity .. suffix)) do answer[#answer + 1] = work end
  end
end
return answer
