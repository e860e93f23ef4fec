-- Pools and queues as they are now. Changes nothing.
--
-- ARGV[9…] names of pools
-- Returns  {now, {queue, active jobs, …} of all queues, {field, value, …} of this minute's and the last minute's dispatches by queue and
--          second, {active workers, active jobs} of each pool, …}

run = function()
  local minute = math.floor(now / 60000)
  local queues, pace = {}, {}
  for _, queue in ipairs(call('HKEYS', P .. 'queues')) do
    queues[#queues + 1] = queue
    queues[#queues + 1] = call('HGET', P .. 'counts:' .. queue, 'active') or '0'
  end
  for back = 1, 0, -1 do
    for _, word in ipairs(call('HGETALL', P .. 'pace:' .. int(minute - back))) do pace[#pace + 1] = word end
  end
  local answer = {now_text, queues, pace}
  for position = 9, #ARGV do
    local key = P .. 'pool:' .. ARGV[position]
    answer[#answer + 1] = {call('ZCOUNT', key .. ':workers', now - ARGV[8], '+inf'), call('SCARD', key .. ':run')}
  end
  return answer
end
