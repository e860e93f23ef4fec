-- Reads jobs as they are, all of one moment. Takes no clock: a read changes nothing.
--
-- ARGV     ids from the third on
-- Returns  job views; ids that do not exist are left out

local views = {}
for position = 3, #ARGV do
  local job = job_load(ARGV[position])
  if job then views[#views + 1] = job_view(job) end
end
return views
