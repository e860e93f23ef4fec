-- Part: what a script of jobs that nobody plans or limits has in place of `plan`, `fair`, `stage`, `tenant` and `admit`, which take
-- longer to set up than such a job takes to store.

local function plan_open()
  return false
end

local function job_stage()
  return false
end

local function tenant_boost() end

local function tenants_admit()
  return nil, ''
end

local knows_no_tenants, knows_no_limits = true, false
