-- Searches for jobs in all keys, a portion per call. Read-only.
--
-- ARGV[9…]
--   cursor      cursor of SCAN, or '' to scan no keys
--   keys        number of keys to scan
--   queue       queue, or ''
--   states      states separated by blanks, or ''
--   type        type, or ''; a `*` at its end matches any text
--   since, til  bounds of the creation time, inclusive, or ''
--   tenant      tenant, or ''
--   most        number of jobs wanted, or '' for all
--   …           ids of jobs to examine first
--
-- Returns  {cursor or '' at the end, id, state, created, due or '', priority, queue, …}; the last
--          portion may exceed the number wanted

local ctx = require('lib/context')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local int = runtime.int
local job_load = job_module.load
local call = redis.call
local find, match = string.find, string.match

-- Keys per SCAN if the number of jobs is bounded: at most this many matches exceed it.
local STEP = 16

local function run()
  local cursor, keys, queue, state_list, kind, since, til, tenant, most = unpack(ctx.args, 9, 17)
  local states = ' ' .. state_list .. ' '
  since, til = tonumber(since), tonumber(til)
  local prefix = match(kind, '^(.*)%*$')
  local from = #ctx.prefix + 5 -- after `job:`
  local left, room = tonumber(keys), tonumber(most)
  local answer = {''}

  local function fits(job)
    if queue ~= '' and job.queue ~= queue then return false end
    if tenant ~= '' and (job.tenant or '_default') ~= tenant then return false end
    if state_list ~= '' and not find(states, ' ' .. job.state .. ' ', 1, true) then return false end
    if prefix then
      if string.sub(job.type, 1, #prefix) ~= prefix then return false end
    elseif kind ~= '' and job.type ~= kind then
      return false
    end
    local created = tonumber(job.created)
    return (not since or created >= since) and (not til or created <= til)
  end

  local function look_at(id)
    local job = job_load(id)
    if job and fits(job) then
      local at = #answer
      answer[at + 1], answer[at + 2], answer[at + 3] = job.id, job.state, job.created
      answer[at + 4], answer[at + 5], answer[at + 6] = job.due or '', job.priority or '0', job.queue
      room = room and room - 1
    end
  end

  for place = 18, #ctx.args do look_at(ctx.args[place]) end
  while cursor ~= '' and left > 0 and (not room or room > 0) do
    local step = room and math.min(STEP, room, left) or left
    local found = call('SCAN', cursor, 'MATCH', ctx.prefix .. 'job:*', 'COUNT', int(step))
    left, cursor = left - step, found[1] ~= '0' and found[1] or ''
    for _, key in ipairs(found[2]) do look_at(string.sub(key, from)) end
  end
  answer[1] = cursor
  return answer
end

return run
