-- A worker says goodbye: its record goes, and what it still holds is available again at once.
--
-- ARGV[9…] worker, 1 if this call is sent again, so that a worker that is gone was known
-- Returns  {1 if it was known, number of jobs handed back, 1 if more remain}

local BOUND = 200

run = function()
  local handed_back, known = take_from(ARGV[9], BOUND, 'shutdown', lease_hand_back)
  commit()
  return {ARGV[10] == '1' and 1 or known, handed_back, handed_back == BOUND and 1 or 0}
end
