-- Renews the lock of a rule, or gives it up and tells those who wait for it.
--
-- ARGV[9…] rule, holder, life ms; 0 gives it up
-- Returns  1, or 0 if the lock is another's

run = function()
  local lock = P .. 'plan:' .. ARGV[9] .. ':lock'
  if call('HGET', lock, 'holder') ~= ARGV[10] then return 0 end
  if ARGV[11] == '0' then
    call('UNLINK', lock)
    -- `-`: it left by itself. A key that is gone is not made anew.
    local key = P .. 'plan:' .. ARGV[9]
    if call('HGET', key, 'planner') == ARGV[10] then call('HSET', key, 'planner', '-' .. ARGV[10]) end
    redis.pcall('PUBLISH', P .. 'signals', 'freed ' .. ARGV[9])
  else
    call('PEXPIRE', lock, ARGV[11])
  end
  return 1
end
