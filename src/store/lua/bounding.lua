-- Bounds a queue, or removes its bound: see `bound.lua`.
--
-- ARGV[9…] queue, `most strategy mark` or '', most queues that may have a bound
-- Returns  1, or 0 if as many have one as may

run = function()
  local BOUNDS, queue = P .. 'bounds', ARGV[9]
  call('HSETNX', P .. 'queues', queue, now_text)
  if ARGV[10] == '' then
    call('HDEL', BOUNDS, queue)
    call('HDEL', P .. 'pressed', queue)
  else
    if call('HEXISTS', BOUNDS, queue) == 0 and call('HLEN', BOUNDS) >= tonumber(ARGV[11]) then return 0 end
    call('HSET', BOUNDS, queue, ARGV[10])
  end
  local number = call('HLEN', BOUNDS)
  if number > 0 then call('HSET', P .. 'state', 'bounded', number) else call('HDEL', P .. 'state', 'bounded') end
  emit('queue.config_updated', {id = queue, type = '', queue = queue})
  commit()
  return 1
end
