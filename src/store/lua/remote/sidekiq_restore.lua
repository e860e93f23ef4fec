-- Puts an entry of an outbox of jobs that are handed back into their source, unless that has happened: an entry that is sent again,
-- or too late, does no harm.
--
-- ARGV     key of what was put back last, sequence of the entry, words of the source and how many they are (see `sidekiq/restore`), jobs
-- Returns  1; 0 if it had been put back; -1 if the gem's locks are not ours

local restore = require('sidekiq/restore').restore

if tonumber(redis.call('GET', ARGV[1]) or 0) >= tonumber(ARGV[2]) then return 0 end
local words = tonumber(ARGV[3])
local source, jobs = {unpack(ARGV, 4, 3 + words)}, {}
for place = 4 + words, #ARGV do jobs[#jobs + 1] = ARGV[place] end
if not restore(redis.call, source, jobs) then return -1 end
redis.call('SET', ARGV[1], ARGV[2])
return 1
