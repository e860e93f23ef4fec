-- Sets or removes what an admin says about a limit: an override, or a queue's own limit. Who waits is looked at.
--
-- ARGV[9…] key, field (`o` an override, `a` a limit), quota or '' to remove it, ms at which it ends or ''
-- Returns  1, or 0 if there was nothing to remove

local key, field, quota, ends = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local name = P .. 'limit:' .. key
local queue = match(key, '^queue:(.*)$')
if quota == '' then
  local had = call('HDEL', name, field)
  if field == 'o' then call('HDEL', name, 'until') end
  if had == 0 then return 0 end
else
  call('HSET', name, field, quota)
  if field == 'o' then call('HSET', name, 'until', ends) end
  call('ZADD', P .. 'limits', now_text, key)
  call('HSET', P .. 'state', 'limits', '1')
  if queue then call('SADD', P .. 'limited', queue) end
end
state[9] = '1'
limits[key] = nil
wake(key)
commit()
return 1
