-- Searches for jobs in all keys, a portion per call. Read-only.
--
-- Takes
--   cursor  string?  cursor of SCAN; nil to scan no keys
--   keys    number   keys to scan
--   queue   string?
--   states  list of string  none for all
--   type    string?  a `*` at its end matches any text
--   since   number?  earliest creation time, inclusive
--   til     number?  latest creation time, inclusive
--   tenant  string?
--   most    number?  jobs wanted; nil for all
--   ids     list of string  jobs to examine first
--
-- Returns
--   cursor  string?  nil at the end
--   jobs    list of {id: string, state: string, created: number, due: number?, priority: number,
--           queue: string}; the last portion may exceed the number wanted

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local int = runtime.int
local job_load = job_module.load
local call = redis.call
local match = string.match

-- Keys per SCAN if the number of jobs is bounded: at most this many matches exceed it.
local STEP = 16

local function run()
  local args = packed.read()
  local queue, kind, since, til, tenant = args.queue, args.type, args.since, args.til, args.tenant
  local states = #args.states > 0 and {}
  for _, state in ipairs(args.states) do states[state] = true end
  local prefix = match(kind or '', '^(.*)%*$')
  local from = #ctx.prefix + 5 -- after `job:`
  local cursor, left, room = args.cursor, args.keys, args.most
  local jobs = {}

  local function fits(job)
    if queue and job.queue ~= queue then return false end
    if tenant and (job.tenant or '_default') ~= tenant then return false end
    if states and not states[job.state] then return false end
    if prefix then
      if string.sub(job.type, 1, #prefix) ~= prefix then return false end
    elseif kind and job.type ~= kind then
      return false
    end
    local created = tonumber(job.created)
    return (not since or created >= since) and (not til or created <= til)
  end

  local function look_at(id)
    local job = job_load(id)
    if job and fits(job) then
      jobs[#jobs + 1] = {id = job.id, state = job.state, created = tonumber(job.created), due = tonumber(job.due),
        priority = tonumber(job.priority or 0), queue = job.queue}
      room = room and room - 1
    end
  end

  for _, id in ipairs(args.ids) do look_at(id) end
  while cursor and left > 0 and (not room or room > 0) do
    local step = room and math.min(STEP, room, left) or left
    local found = call('SCAN', cursor, 'MATCH', ctx.prefix .. 'job:*', 'COUNT', int(step))
    left, cursor = left - step, found[1] ~= '0' and found[1] or nil
    for _, key in ipairs(found[2]) do look_at(string.sub(key, from)) end
  end
  return packed.write({cursor = cursor, jobs = jobs})
end

return run
