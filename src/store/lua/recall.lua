-- Hands back what a fetch leased whose answer was lost for good. The fetch may still be on its way, over a connection that was given
-- up: its slot is noted, so that it leases nothing when it arrives.
--
-- ARGV[9…] slot and number of the fetch; for each of its requests 1 if its client can ask for the same jobs again, else 0
-- Returns  how many jobs were handed back

local MOST_NOTED = 32

run = function()
  local key, released, place = P .. 'call:' .. ARGV[9], 0, 10
  local number, started, ids = match(call('GET', key) or '', '^(%d+) (%d+) (.*)$')
  if number == ARGV[10] then
    for of_request in string.gmatch(ids, '([^,]*),') do
      place = place + 1
      for id in string.gmatch(ARGV[place] == '1' and '' or of_request, '%S+') do
        local job = job_load(id)
        if job and job.state == 'active' and job.started == started then
          hand_back(job)
          released = released + 1
        end
      end
    end
  end
  -- Sent again, it finds nothing: a job may be leased anew in this very millisecond.
  call('UNLINK', key)
  local noted = {}
  for entry in string.gmatch(state.recalled or '', '%S+') do noted[#noted + 1] = entry end
  noted[#noted + 1] = ARGV[9] .. ':' .. now_text
  call('HSET', P .. 'state', 'recalled', concat(noted, ' ', math.max(1, #noted - MOST_NOTED + 1)))
  commit()
  return released
end
