-- Puts the jobs of an outbox entry back into their source, once: an entry that is sent again, or
-- late, changes nothing.
--
-- ARGV
--   restored  key of the sequence up to which entries were put back
--   sequence  sequence of the entry
--   words     number of words that describe the source, then the words (`sidekiq/restore`)
--   …         jobs, as `tenant, text, …`
--
-- Returns  1; 0 if the entry was put back before; -1 if another process holds the gem's locks

local restore = require('sidekiq/restore').restore

local restored, sequence, words = unpack(ARGV, 1, 3)
words = tonumber(words)
if tonumber(redis.call('GET', restored) or 0) >= tonumber(sequence) then return 0 end
local source, jobs = {unpack(ARGV, 4, 3 + words)}, {}
for place = 4 + words, #ARGV do jobs[#jobs + 1] = ARGV[place] end
if not restore(redis.call, source, jobs) then return -1 end
redis.call('SET', restored, sequence)
return 1
