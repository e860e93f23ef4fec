-- Tries a delivery that was given up once more, from the first try on.
--
-- ARGV[9]  id
-- Returns  1, or 0 if there is none

run = function()
  local id, key = ARGV[9], P .. 'delivery:' .. ARGV[9]
  if call('HGET', key, 'dead') ~= '1' then return call('ZSCORE', P .. 'deliveries', id) and 1 or 0 end
  call('HSET', key, 'n', '0')
  call('HDEL', key, 'dead')
  call('PERSIST', key)
  call('ZREM', P .. 'undelivered', id)
  call('ZADD', P .. 'deliveries', now_text, id)
  return 1
end
