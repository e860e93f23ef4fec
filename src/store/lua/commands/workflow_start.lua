-- Stores a workflow and starts its first jobs. If there are too many for one call, the tick starts
-- them.
--
-- Takes
--   id       string  workflow
--   op       string  id of this operation; if it is repeated, the stored workflow is returned
--   version  string  version of the plan rules that the caller read
--   kind     string  type of the workflow
--   name     string  JSON, or ''
--   meta     string  JSON, or ''
--   jobs     number  number of jobs
--   tenant   string  or ''
--   steps    string  names of steps (`workflows/workflow`), or ''
--   nodes    list of {text: string, words: string}  each with its text (`workflows/workflow`), and
--            for a job its words (`queue/enqueue`) separated by RS
--
-- Returns  {stored: …} with the view (`workflows/view`), `duplicate`, `stale` if the plan rules have
--          changed, or {refused: string} with the refusal of `queue/enqueue`: `full US …`,
--          `bound US …` or `limited US …`

local ctx = require('lib/context')
local node_read = require('workflows/node').read
local bound = require('queue/bound')
local enqueue = require('queue/enqueue')
local enqueue_limits = require('limits/enqueue_limits')
local workflow_new = require('workflows/record').new
local workflows = require('workflows/workflow').workflows
local view = require('workflows/view')
local packed = require('lib/packed')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, gather, int = runtime.commit, runtime.gather, runtime.int
local WORDS, over_bound, request_begin = enqueue.WORDS, enqueue.over_bound, enqueue.request_begin
local workflow_view = view.workflow_view
local write = packed.write
local call = redis.call
local find = string.find

-- Returns the refusal of a tenant's limit for the first jobs; or nil and a function that counts
-- them, unless they were counted already.
local function workflow_admit(words, jobs)
  if enqueue_limits.try_count(words, 1, jobs, WORDS) then return end
  local limited, _, enter = enqueue_limits.check(words, 1, jobs, WORDS)
  return limited, enter
end

local function run()
  local args = packed.read()
  local id, op, version = args.id, args.op, args.version

  local function words_of(number)
    return args.nodes[number + 1].words
  end

  -- Returns true if the first jobs must be stored in one call: bounds of queues and staging count
  -- what is stored, and a plan rule lets a request pass as a whole.
  local function belong_together(words, jobs)
    if ctx.state.bounded then return true end
    for index = 0, jobs - 1 do
      if wire.fields(words[index * WORDS + 6]).rule then return true end
    end
    return false
  end

  local key = ctx.prefix .. 'workflow:' .. id
  local by = call('HGET', key, 'by')
  if by then return write(by == op and {stored = workflow_view(id, '')} or 'duplicate') end
  if version ~= ctx.state.rules then return write('stale') end
  local workflow, count = workflow_new(id, args.kind, args.name, ctx.now_text, args.tenant), #args.nodes
  for number = 0, count - 1 do workflow.nodes[number] = node_read(args.nodes[number + 1].text) end
  local words, jobs = workflows.first_jobs(workflow, words_of)
  local full = version ~= '' and over_bound(words, 1, #jobs)
  local enter
  if not full and find(ctx.tenant_limits, 'e', 1, true) then full, enter = workflow_admit(words, #jobs) end
  if not full and ctx.state.bounded then full = bound.refusal(words, 1, #jobs, WORDS) end
  if full then
    enqueue_limits.undo_count()
    workflow.touched = {} -- nothing is stored of it
    commit()
    return write({refused = full})
  end
  if enter then enter() end
  call('HSET', key, 'state', 'running', 'kind', args.kind, 'name', args.name, 'meta', args.meta, 'created', ctx.now_text, 'by', op,
    'jobs', int(args.jobs), 'nodes', int(count), 'tenant', args.tenant)
  if args.steps ~= '' then call('HSET', key, 'steps', args.steps) end
  request_begin(words, 1, #jobs)
  workflows.start(workflow, words, jobs, belong_together(words, #jobs))
  for number = 0, count - 1 do
    local node = workflow.nodes[number]
    workflow.touched[number] = true
    if node.kind == 'job' and node.state == 'waiting' then gather('HSET', key .. ':jobs', int(number), words_of(number)) end
  end
  commit()
  return write({stored = workflow_view(id, '')})
end

return run
