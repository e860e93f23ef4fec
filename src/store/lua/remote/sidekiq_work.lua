-- Returns the running jobs of a Sidekiq as its processes last reported. Read-only.
--
-- ARGV
--   prefix  prefix of its keys
--   most    most processes
--
-- Returns  {JSON of each running job, …}

local prefix, most = unpack(ARGV)
local call = redis.call

local answer = {}
for _, identity in ipairs(call('SRANDMEMBER', prefix .. 'processes', most)) do
  for _, suffix in ipairs({':work', ':workers'}) do -- Sidekiq 7 and 8; Sidekiq 6
    for _, work in ipairs(call('HVALS', prefix .. identity .. suffix)) do answer[#answer + 1] = work end
  end
end
return answer
