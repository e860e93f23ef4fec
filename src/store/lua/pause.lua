-- Pauses a plan rule, or lets it go on and tells its planners.
--
-- ARGV[9…] rule, 1 to pause
-- Returns  1, or 0 if there is no such rule

run = function()
  local key = P .. 'plan:' .. ARGV[9]
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  call('HSET', key, 'paused', ARGV[10])
  if ARGV[10] == '0' then redis.pcall('PUBLISH', P .. 'signals', 'freed ' .. ARGV[9]) end
  return 1
end
