-- Removes a cron. Jobs that it made stay.
--
-- ARGV[9…] name
-- Returns  1 if there was one

run = function()
  call('UNLINK', P .. 'cron:' .. ARGV[9])
  return call('ZREM', P .. 'crons', ARGV[9])
end
