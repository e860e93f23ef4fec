-- Since when the oldest job of a queue that may run is available. Changes nothing.
--
-- ARGV[9]  queue
-- Returns  ms, or '' if nothing may run

run = function()
  local oldest = queue_oldest(ARGV[9])
  return oldest and int(oldest) or ''
end
