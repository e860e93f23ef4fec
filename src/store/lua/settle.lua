-- What became of a delivery: done with, to be tried again, or given up.
--
-- ARGV[9…] id, `done`, `again` or `dead`, ms until the next try, what went wrong as JSON, ms for which a dead one is kept, most dead ones
-- Returns  1, or 0 if there is none

run = function()
  local id, key = ARGV[9], P .. 'delivery:' .. ARGV[9]
  if call('EXISTS', key) == 0 then return 0 end
  if ARGV[10] == 'done' then
    call('ZREM', P .. 'deliveries', id)
    call('UNLINK', key)
    return 1
  end
  call('HINCRBY', key, 'n', 1)
  call('HSET', key, 'error', ARGV[12])
  if ARGV[10] == 'again' then
    call('ZADD', P .. 'deliveries', int(now + tonumber(ARGV[11])), id)
    return 1
  end
  local DEAD = P .. 'undelivered'
  call('ZREM', P .. 'deliveries', id)
  call('HSET', key, 'dead', '1')
  call('PEXPIRE', key, ARGV[13])
  call('ZADD', DEAD, now_text, id)
  call('ZREMRANGEBYSCORE', DEAD, '-inf', int(now - tonumber(ARGV[13])))
  for _, old in ipairs(call('ZRANGE', DEAD, 0, -1 - tonumber(ARGV[14]))) do
    call('UNLINK', P .. 'delivery:' .. old)
    call('ZREM', DEAD, old)
  end
  emit('webhook.dead', subject(''), '"delivery_id":"' .. id .. '","subscription_id":"' .. (call('HGET', key, 'sub') or '') .. '","error":'
    .. ARGV[12])
  commit()
  return 1
end
