-- Hands back the jobs of a fetch whose answer was lost. The fetch may still arrive over an
-- abandoned connection, so its slot is recorded and it leases nothing then.
--
-- call:S          string  `commands/fetch`
-- state.recalled          last recalled slots, as `SLOT:time` separated by blanks
--
-- ARGV[9…]
--   slot, number  of the fetch
--   …             for each of its requests 1 if its client can repeat it by a fetch id, else 0
--
-- Returns  number of jobs handed back

local ctx = require('lib/context')
local job_module = require('queue/job')
local hand_back_module = require('queue/hand_back')
local runtime = require('lib/runtime')

local commit = runtime.commit
local job_load = job_module.load
local hand_back = hand_back_module.hand_back
local call = redis.call
local concat, match = table.concat, string.match

local MOST_RECALLED = 32

local function run()
  local slot, number = unpack(ctx.args, 9, 10)
  local key, released, place = ctx.prefix .. 'call:' .. slot, 0, 10
  local last, started, ids = match(call('GET', key) or '', '^(%d+) (%d+) (.*)$')
  if last == number then
    for of_request in string.gmatch(ids, '([^,]*),') do
      place = place + 1
      for id in string.gmatch(ctx.args[place] == '1' and '' or of_request, '%S+') do
        local job = job_load(id)
        if job and job.state == 'active' and job.started == started then
          hand_back(job)
          released = released + 1
        end
      end
    end
  end
  -- A resend finds nothing: by then a job may be leased again, even within the same millisecond.
  call('UNLINK', key)
  local recalled = {}
  for entry in string.gmatch(ctx.state.recalled or '', '%S+') do recalled[#recalled + 1] = entry end
  recalled[#recalled + 1] = slot .. ':' .. ctx.now_text
  call('HSET', ctx.prefix .. 'state', 'recalled', concat(recalled, ' ', math.max(1, #recalled - MOST_RECALLED + 1)))
  commit()
  return released
end

return run
