-- Puts the jobs of an outbox entry back into their source, once: an entry that is sent again, or
-- late, changes nothing.
--
-- Takes
--   restored  string  key of the sequence up to which entries were put back
--   sequence  number  sequence of the entry
--   words     list of string  words that describe the source (`sidekiq/restore`)
--   jobs      list of string  jobs, as `tenant, text, …`
--
-- Returns  true, also if the entry was put back before; false if another process holds the gem's
--          locks

local restore = require('sidekiq/restore').restore

local args = cmsgpack.unpack(ARGV[1])
if tonumber(redis.call('GET', args.restored) or 0) >= args.sequence then return cmsgpack.pack(true) end
if not restore(redis.call, args.words, args.jobs) then return cmsgpack.pack(false) end
redis.call('SET', args.restored, string.format('%d', args.sequence))
return cmsgpack.pack(true)
