-- Begins a workflow: stores all of it, and the jobs that come first. Where these are many, the tick stores the rest of them.
--
-- ARGV[9…] id, op, version of the plan rules it was read under, kind, name and meta (JSON or ''), jobs, nodes, tenant or '', steps or ''; for each node: its
--          text, see `workflow.lua`, and for a job its words, see `store.lua`, separated by RS, else ''
-- Returns  {'ok', view}, {'duplicate'}, {'stale'} if other rules hold now, or why it is refused, as `store.lua`
--          has it: {`full US …`}, {`bound US …`} or {`limited US …`}

local FIRST = 19

local function words_of(number)
  return ARGV[FIRST + number * 2 + 1]
end

-- Why a tenant's limit refuses the jobs that come first, or what takes them into its books, unless that was done.
local function workflow_admit(words, jobs)
  if door.pass(words, 1, jobs, WORDS) then return end
  local limited, _, enter = door.admit(words, 1, jobs, WORDS)
  return limited, enter
end

run = function()
  -- Whether the jobs that come first must be stored in one call: what bounds a queue or staging counts what is stored, and a plan rule
  -- lets a request pass as a whole.
  local function belong_together(words, jobs)
    if state.bounded then return true end
    for index = 0, jobs - 1 do
      if find(words[index * WORDS + 6], '^rule\31') then return true end
    end
    return false
  end

  local id, key = ARGV[9], P .. 'workflow:' .. ARGV[9]
  local by = call('HGET', key, 'by')
  if by then return by == ARGV[10] and {'ok', workflow_view(id, '')} or {'duplicate'} end
  if ARGV[11] ~= state.rules then return {'stale'} end
  local workflow, count = workflow_new(id, ARGV[12], ARGV[13], now_text, ARGV[17]), tonumber(ARGV[16])
  for number = 0, count - 1 do workflow.nodes[number] = node_read(ARGV[FIRST + number * 2]) end
  local words, jobs = workflows.first(workflow, words_of)
  local full = ARGV[11] ~= '' and over_bound(words, 1, #jobs)
  local enter
  if not full and find(allowed, 'e', 1, true) then full, enter = workflow_admit(words, #jobs) end
  if not full and state.bounded then full = door.refusal(words, 1, #jobs, WORDS) end
  if full then
    door.leave()
    workflow.touched = {} -- there is none
    commit()
    return {full}
  end
  if enter then enter() end
  call('HSET', key, 'state', 'running', 'kind', ARGV[12], 'name', ARGV[13], 'meta', ARGV[14], 'created', now_text, 'by', ARGV[10],
    'jobs', ARGV[15], 'nodes', ARGV[16], 'tenant', ARGV[17])
  if ARGV[18] ~= '' then call('HSET', key, 'steps', ARGV[18]) end
  door.begin(words, 1, #jobs)
  workflows.begin(workflow, words, jobs, belong_together(words, #jobs))
  for number = 0, count - 1 do
    local node = workflow.nodes[number]
    workflow.touched[number] = true
    if node.kind == 'job' and node.state == 'waiting' then gather('HSET', key .. ':jobs', number, words_of(number)) end
  end
  commit()
  return {'ok', workflow_view(id, '')}
end
