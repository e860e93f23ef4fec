-- Part: what a script of jobs that nobody plans, but whose tenants are limited, has in place of `plan`, `fair`, `level`, `limit` and
-- `stage`. No lane waits for a limit, or it would have said that it knows too little.

local function plan_open()
  return false
end

local function job_stage()
  return false
end

tenant_lane = function(_, lane, tenant)
  local owner = tenant or '_default'
  if find(lane, ';b=', 1, true) or not tenant_capped(owner) then return lane end
  return lane .. ';b=' .. owner
end

local knows_no_limits = true
