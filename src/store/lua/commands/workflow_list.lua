-- Searches for workflows in all keys, a portion per call. Read-only.
--
-- Takes
--   cursor  string?  cursor of SCAN; nil to scan no keys
--   keys    number   keys to scan
--   states  list of string  none for all
--   type    string?
--   tenant  string   the only tenant visible to the caller, or '' for all
--   most    number   workflows wanted
--   ids     list of string  workflows to examine first
--
-- Returns
--   cursor     string?  nil at the end
--   workflows  list without their parts (`workflows/view`); the last portion may exceed the number
--              wanted

local ctx = require('lib/context')
local packed = require('lib/packed')
local view = require('workflows/view')
local runtime = require('lib/runtime')

local int = runtime.int
local summary = view.summary
local call = redis.call

local STEP = 16
local ID = string.rep('?', 36) -- other keys of a workflow are longer

local function run()
  local args = packed.read()
  local states = #args.states > 0 and {}
  for _, state in ipairs(args.states) do states[state] = true end
  local cursor, left, room = args.cursor, args.keys, args.most
  local start = ctx.prefix .. 'workflow:'
  local workflows = {}

  local function look_at(id)
    local workflow = summary(id, args.tenant)
    if not workflow or states and not states[workflow.state] then return end
    if args.type and args.type ~= workflow.kind then return end
    workflows[#workflows + 1] = workflow
    room = room - 1
  end

  for _, id in ipairs(args.ids) do look_at(id) end
  while cursor and left > 0 and room > 0 do
    local step = math.min(STEP, room, left)
    local found = call('SCAN', cursor, 'MATCH', start .. ID, 'COUNT', int(step))
    left, cursor = left - step, found[1] ~= '0' and found[1] or nil
    for _, key in ipairs(found[2]) do look_at(string.sub(key, #start + 1)) end
  end
  return packed.write({cursor = cursor, workflows = workflows})
end

return run
