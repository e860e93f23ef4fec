-- Reads jobs as they are, all of one moment. A read changes nothing.
--
-- ARGV[9…] ids
-- Returns  {job view, …}; ids that do not exist are left out

run = function()
  local views = {}
  for at = 9, #ARGV do
    local job = job_load(ARGV[at])
    if job then views[#views + 1] = job_view(job) end
  end
  return views
end
