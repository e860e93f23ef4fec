-- What storing a job asks of the planner. Commands without `staging/stage` store no planned jobs: nothing is planned for them.

local on_begin = require('lib/runtime').on_begin

local M = {plan_open = nil, job_stage = nil}

local function unplanned()
  return false
end

on_begin(function()
  M.plan_open, M.job_stage = unplanned, unplanned
end)

return M
