-- Pauses a queue, or lets it go on. A paused queue takes jobs and hands out none; whatever comes due still comes due.
--
-- paused        hash  paused queues and since when; state.paused is their number, or missing where there is none
--
-- ARGV[9…] queue, 1 to pause, most queues that may be paused, who does it, as JSON
-- Returns  when it was paused, or '' if it is not paused now; `full` if as many are as may be

run = function()
  local PAUSED, queue = P .. 'paused', ARGV[9]
  local about = {id = queue, type = '', queue = queue}
  local since = call('HGET', PAUSED, queue)
  call('HSETNX', P .. 'queues', queue, now_text)
  if ARGV[10] == '1' then
    if since then return since end
    if call('HLEN', PAUSED) >= tonumber(ARGV[11]) then return 'full' end
    call('HSET', PAUSED, queue, now_text)
    emit('queue.paused', about, '"by":' .. ARGV[12])
  elseif since then
    call('HDEL', PAUSED, queue)
    emit('queue.resumed', about, '"by":' .. ARGV[12])
    -- Nobody took from it, and nobody could: it has not starved.
    call('ZADD', P .. 'live', 'XX', now_text, queue)
    signal('ready ' .. queue)
  end
  local number = call('HLEN', PAUSED)
  if number > 0 then call('HSET', P .. 'state', 'paused', number) else call('HDEL', P .. 'state', 'paused') end
  commit()
  return ARGV[10] == '1' and now_text or ''
end
