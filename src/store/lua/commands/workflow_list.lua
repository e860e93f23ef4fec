-- Searches for workflows in all keys, a portion per call. Read-only.
--
-- ARGV[9…]
--   cursor  cursor of SCAN, or '' to scan no keys
--   keys    number of keys to scan
--   states  states separated by blanks, or ''
--   type    type, or ''
--   tenant  the only tenant visible to the caller, or '' for all
--   most    number of workflows wanted
--   …       ids of workflows to examine first
--
-- Returns  {cursor or '' at the end, id, {state, kind, name, meta, created, finished, jobs, jobs
--          that succeeded, jobs that failed, tenant}, …}; the last portion may exceed the number
--          wanted

local ctx = require('lib/context')
local view = require('workflows/view')
local runtime = require('lib/runtime')

local int = runtime.int
local workflow_is_in = view.workflow_is_in
local call = redis.call

local STEP = 16
local ID = string.rep('?', 36) -- other keys of a workflow are longer

local function run()
  local cursor, keys, state_list, kind, tenant, most = unpack(ctx.args, 9, 14)
  local states = ' ' .. state_list .. ' '
  local left, room = tonumber(keys), tonumber(most)
  local start = ctx.prefix .. 'workflow:'
  local answer = {''}

  local function look_at(id)
    local header = call('HMGET', start .. id, 'state', 'kind', 'name', 'meta', 'created', 'finished', 'jobs', 'ok', 'failed', 'tenant')
    if not header[1] or not workflow_is_in(header[10], tenant) then return end
    if state_list ~= '' and not string.find(states, ' ' .. header[1] .. ' ', 1, true) then return end
    if kind ~= '' and kind ~= header[2] then return end
    for position = 1, #header do header[position] = header[position] or '' end
    answer[#answer + 1], answer[#answer + 2] = id, header
    room = room - 1
  end

  for place = 15, #ctx.args do look_at(ctx.args[place]) end
  while cursor ~= '' and left > 0 and room > 0 do
    local step = math.min(STEP, room, left)
    local found = call('SCAN', cursor, 'MATCH', start .. ID, 'COUNT', int(step))
    left, cursor = left - step, found[1] ~= '0' and found[1] or ''
    for _, key in ipairs(found[2]) do look_at(string.sub(key, #start + 1)) end
  end
  answer[1] = cursor
  return answer
end

return run
