-- Stores new jobs; requests of one call are independent.
--
-- ARGV[9…] 1 if some job names its tenant, requests, then each as `store.lua` has it
-- Returns  for each request its answer; the longest form of this script adds `plain` where neither queues are bounded nor tenants
--          limited. The shortest knows nothing of tenants that are: it answers `rich` for all

-- Whether tenants are limited of whom the call has jobs.
local function concerns_tenants()
  return allowed ~= '' and (ARGV[9] == '1' or find(allowed, 'd', 1, true))
end

run = function()
  local answers, at, requests = {}, 11, tonumber(ARGV[10])
  if concerns_tenants() then
    if not door.admit then return {'rich'} end
    if find(allowed, 'e', 1, true) then door.foresee(at, requests, WORDS) end
  end
  for request = 1, requests do answers[request], at = enqueue_request(at) end
  queues_note()
  commit()
  if door.refusal and not state.bounded and allowed == '' then answers[#answers + 1] = 'plain' end
  return answers
end
