-- Part: what a script of jobs that nobody plans has in place of `plan`, `fair` and `stage`, which would make storing such a
-- job slower by a tenth.

local function plan_open()
  return false
end

local function job_stage()
  return false
end
