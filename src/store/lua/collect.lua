-- Hands out deliveries that are due, so that no two processes send the same at once. One that is not settled in time is due again.
--
-- ARGV[9…] how many at most, ms until they are due again
-- Returns  {now, id, {sub, kind, body, n}, …}

run = function()
  local DELIVERIES, answer = P .. 'deliveries', {now_text}
  for _, id in ipairs(call('ZRANGEBYSCORE', DELIVERIES, '-inf', now_text, 'LIMIT', 0, ARGV[9])) do
    local fields = call('HMGET', P .. 'delivery:' .. id, 'sub', 'kind', 'body', 'n')
    if fields[1] then
      call('ZADD', DELIVERIES, int(now + tonumber(ARGV[10])), id)
      answer[#answer + 1], answer[#answer + 2] = id, fields
    else
      call('ZREM', DELIVERIES, id)
    end
  end
  return answer
end
