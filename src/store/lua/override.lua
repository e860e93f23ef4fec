-- Sets or removes what an admin says about a limit: an override, or a queue's own limit. Who waits is looked at.
--
-- ARGV[9…] key, field (`o` an override, `a` a limit), quota or '' to remove it, ms at which it ends, '+ms' from now, or ''
-- Returns  {1, 0 if there was nothing to remove, or -1 if it would end before it begins, notes for metrics}

run = function()
  local key, field, quota, ends = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
  if string.sub(ends, 1, 1) == '+' then ends = int(now + tonumber(ends)) end
  if ends ~= '' and tonumber(ends) <= now then return {-1, notes} end
  local name = P .. 'limit:' .. key
  local queue = match(key, '^#(.*)$')
  if quota == '' then
    local over = field == 'o' and tonumber(call('HGET', name, 'until') or nil)
    local had = call('HDEL', name, field)
    if field == 'o' then call('HDEL', name, 'until') end
    if call('EXISTS', name) == 0 then call('ZREM', P .. 'limits', key) end
    if had == 0 or over and over <= now then return {0, notes} end
  else
    call('HSET', name, field, quota)
    if field == 'o' then call('HSET', name, 'until', ends) end
    call('ZADD', P .. 'limits', now_text, key)
    call('HSET', P .. 'state', 'limits', '1')
    if queue then call('SADD', P .. 'limited', queue) end
  end
  state.limits = '1'
  limits[key] = nil
  stopped.wake(key)
  commit()
  return {1, notes}
end
