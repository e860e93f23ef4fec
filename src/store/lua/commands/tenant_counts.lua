-- Returns the jobs of tenants that have not ended. Read-only.
--
-- Takes
--   tenants  list of string  `*` is the sum of all but the default one
--
-- Returns  list of {jobs: {pending: number, available: number, scheduled: number, retryable: number,
--          active: number}, staged: number} for each tenant; available jobs include the staged ones

local packed = require('lib/packed')
local headcount = require('tenants/headcount')
local job_counts = require('tenants/job_counts')

local staged_of, tenant_jobs = headcount.staged_of, job_counts.tenant_jobs

local function run()
  local counts = {}
  for place, name in ipairs(packed.read().tenants) do
    counts[place] = {jobs = tenant_jobs(name), staged = math.max(staged_of(name), 0)}
  end
  return packed.write(counts)
end

return run
