-- Registers a process that takes jobs in from a source of a main queue, or removes it. Refused while a release hands jobs of that
-- main queue back: see `hold_release.lua`.
--
-- importers:M  zset  `process source` by the time in ms at which it last registered
--
-- ARGV[9…] main queue, process, source, ms after which a process that does not register again is gone, 1 to register, 0 to remove it
-- Returns  1, or 0 if a release is under way; for a process that is removed, how many others drain the same source

run = function()
  local key, life = P .. 'importers:' .. ARGV[9], tonumber(ARGV[12])
  local member = ARGV[10] .. ' ' .. ARGV[11]
  call('ZREMRANGEBYSCORE', key, '-inf', '(' .. int(now - life))
  call('ZREMRANGEBYSCORE', key, '(' .. now_text, '+inf') -- from before the clock was set back: whoever lives registers again
  if ARGV[13] == '0' then
    call('ZREM', key, member)
    local others = 0
    for _, other in ipairs(call('ZRANGE', key, 0, -1)) do
      if match(other, ' (.*)$') == ARGV[11] then others = others + 1 end
    end
    return others
  end
  if call('EXISTS', P .. 'release:' .. ARGV[9]) == 1 then
    call('ZREM', key, member)
    return 0
  end
  call('ZADD', key, now_text, member)
  call('PEXPIRE', key, int(life))
  return 1
end
