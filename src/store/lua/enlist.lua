-- Makes deliveries of events and moves on behind those: of all processes that try, one does.
--
-- deliveries    zset  deliveries by when they are tried next
-- delivery:ID   hash  sub, kind, body; n tries so far, created, error of the last try; dead 1 if it was given up
-- undelivered   zset  those that were given up, by when
--
-- ARGV[9…] the event behind which it was read, the one to go on behind, most deliveries; for each: id, subscription, type, body
-- Returns  1, or 0 if another process did it

run = function()
  local HOOKED, DELIVERIES = P .. 'hooked', P .. 'deliveries'
  if (call('GET', HOOKED) or '') ~= ARGV[9] then return 0 end
  local room = tonumber(ARGV[11]) - call('ZCARD', DELIVERIES)
  local dropped = 0
  for at = 12, #ARGV, 4 do
    if room > 0 then
      call('HSET', P .. 'delivery:' .. ARGV[at], 'sub', ARGV[at + 1], 'kind', ARGV[at + 2], 'body', ARGV[at + 3], 'n', '0', 'created',
        now_text)
      call('ZADD', DELIVERIES, now_text, ARGV[at])
      room = room - 1
    else
      dropped = dropped + 1
    end
  end
  call('SET', HOOKED, ARGV[10])
  if dropped > 0 then emit('webhook.dropped', subject(''), '"count":' .. dropped) end
  commit()
  return 1
end
