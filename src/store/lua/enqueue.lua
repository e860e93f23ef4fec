-- Stores new jobs; requests of one call are independent.
--
-- ARGV[9…] requests, then each as `store.lua` has it
-- Returns  for each request its answer; the longest form of this script adds `plain` where no queue is bounded

run = function()
  local answers, at = {}, 10
  for request = 1, tonumber(ARGV[9]) do answers[request], at = enqueue_request(at) end
  queues_note()
  commit()
  if door.refusal and not state[12] then answers[#answers + 1] = 'plain' end
  return answers
end
