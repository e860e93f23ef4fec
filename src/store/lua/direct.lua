-- Tells a worker what to do from now on; it hears of it with its next sign of life, and gets no jobs unless it is to run.
--
-- ARGV[9…] worker, `running`, `quiet` or `terminate`
-- Returns  'ok', 'missing', or 'terminate' if that was told before: it does not go back

run = function()
  local key = P .. 'worker:' .. ARGV[9]
  local was = call('HMGET', key, 'seen', 'directive', 'state')
  if not was[1] then return 'missing' end
  if was[2] == 'terminate' and ARGV[10] ~= 'terminate' then return 'terminate' end
  call('HSET', key, 'directive', ARGV[10])
  set_halted(ARGV[9], ARGV[10] ~= 'running' or (was[3] or 'running') ~= 'running')
  if was[2] ~= ARGV[10] and ARGV[10] ~= 'running' then emit('worker.' .. ARGV[10], subject(ARGV[9])) end
  commit()
  return 'ok'
end
