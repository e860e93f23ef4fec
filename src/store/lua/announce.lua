-- Tells something that is not about a job to whoever reads events.
--
-- ARGV[9…] type, subject, data as JSON members
-- Returns  1

run = function()
  emit(ARGV[9], subject(ARGV[10]), ARGV[11])
  commit()
  return 1
end
