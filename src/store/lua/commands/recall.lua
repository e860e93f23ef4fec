-- Hands back the jobs of a fetch whose answer was lost. The fetch may still arrive over an
-- abandoned connection, so its slot is recorded and it leases nothing then.
--
-- call:S          string  `commands/fetch`
-- state.recalled          last recalled slots, as `SLOT:time` separated by blanks
--
-- Takes
--   slot        string  of the fetch
--   number      number  of the fetch
--   replayable  list of boolean  for each of its requests, true if its client can repeat it by a
--               fetch id
--
-- Returns  number of jobs handed back

local ctx = require('lib/context')
local packed = require('lib/packed')
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
  local args = packed.read()
  local key, released, place = ctx.prefix .. 'call:' .. args.slot, 0, 0
  local last, started, ids = match(call('GET', key) or '', '^(%d+) (%d+) (.*)$')
  if tonumber(last) == args.number then
    for of_request in string.gmatch(ids, '([^,]*),') do
      place = place + 1
      for id in string.gmatch(args.replayable[place] and '' or of_request, '%S+') do
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
  recalled[#recalled + 1] = args.slot .. ':' .. ctx.now_text
  call('HSET', ctx.prefix .. 'state', 'recalled', concat(recalled, ' ', math.max(1, #recalled - MOST_RECALLED + 1)))
  commit()
  return packed.write(released)
end

return run
