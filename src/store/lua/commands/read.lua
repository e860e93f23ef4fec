-- Reads jobs. Read-only.
--
-- ARGV[9…]  ids
--
-- Returns  {job view, …}; ids that do not exist are left out

local ctx = require('lib/context')
local job_module = require('queue/job')

local job_load, job_view = job_module.load, job_module.view

local function run()
  local views = {}
  for at = 9, #ctx.args do
    local job = job_load(ctx.args[at])
    if job then views[#views + 1] = job_view(job) end
  end
  return views
end

return run
