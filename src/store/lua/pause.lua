-- Pauses a plan rule, or lets it go on and tells its planners.
--
-- ARGV[9…] rule, 1 to pause, who does it, as JSON
-- Returns  1, or 0 if there is no such rule

run = function()
  local key = P .. 'plan:' .. ARGV[9]
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  if (call('HGET', key, 'paused') or '0') ~= ARGV[10] then
    call('HSET', key, 'paused', ARGV[10])
    emit(ARGV[10] == '1' and 'planner.paused' or 'planner.resumed', subject(ARGV[9]), '"by":' .. ARGV[11])
    commit()
  end
  if ARGV[10] == '0' then redis.pcall('PUBLISH', P .. 'signals', 'freed ' .. ARGV[9]) end
  return 1
end
