-- Leases jobs to workers. The requests of a call are served in order; a failure affects only its
-- own request.
--
-- call:S    string  `number time ids` of the last call of slot S that leased jobs; ids of a request
--                   are separated by blanks, requests by commas; with a TTL
-- fetch:ID  string  ids of the jobs that were leased for a fetch id; with a TTL
--
-- A resent call, and a repeated fetch id, return the same jobs again as far as the worker still
-- holds them.
--
-- ARGV[9…]
--   slot, number  of this call: a process numbers the calls of each of its slots
--   is_resend     1 if this call is a resend
--   requests      number of requests; negative to serve them although something is due
--   …             for each request: worker or '', the worker as JSON, and '' if the rest equals
--                 that of the request before; otherwise: count, visibility ms or '', fetch id or
--                 '', pool or '', strategy of its own or '' (`strategy weights…`), the only tenant
--                 whose jobs are wanted or '' (then there is one request), number of queues, queues
--                 in order of preference
--
-- Returns  'due', without having done anything, if something is due that the tick must handle
--          first; or {answers, 1 if the call ended early and should be repeated at once, notes for
--          metrics, the state of the limit that each request met as `number room ms` or ''; empty
--          if there are no limits}
--
-- An answer is {job view, …}, the view of a single job, {'pool', name} if the worker belongs to
-- another pool, or {'error', text}.

local ctx = require('lib/context')
local lane_module = require('queue/lane')
local job_module = require('queue/job')
local source = require('dispatch/source')
local simple = require('dispatch/simple')
local policy = require('dispatch/policy')
local worker_jobs = require('queue/worker_jobs')
local number_in = require('lib/number').number_in
local runtime = require('lib/runtime')

local commit, emit, gather, guarded, int = runtime.commit, runtime.emit, runtime.gather, runtime.guarded, runtime.int
local apply_deferred, signal = runtime.apply_deferred, runtime.signal
local queue_depth = lane_module.queue_depth
local job_expiry, job_load = job_module.expiry, job_module.load
local job_move, job_save, job_view = job_module.move, job_module.save, job_module.view
local lease_deadline = job_module.lease_deadline
local sources_close = source.sources_close
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local strategy -- `dispatch/simple` or `dispatch/policy`

-- Returns the strategy for all requests of the call: `dispatch/simple` unless settings or a request
-- need more.
local function strategy_for(requests)
  local state = ctx.state
  if state.limits or state.gated or state.levels or find(state.policy, '[^o]') or find(ctx.tenant_limits, 'c', 1, true) then return policy end
  for index = 1, #requests do
    local request = requests[index]
    if request.pool ~= '' or request.how ~= '' or request.tenant ~= '' then return policy end
  end
  return simple
end

local REPLAY_MS, RECALL_MS = '60000', '3600000'

local function is_due(set)
  return #call('ZRANGEBYSCORE', set, '-inf', ctx.now_text, 'LIMIT', '0', '1') > 0
end

-- First argument of the requests.
local FIRST = 13

local requests
local has_halted -- whether any worker is halted; if none is, none is looked up
local pace -- by queue: dispatched jobs · 2^40 + sum of their waits in ms

local NONE = {} -- shared; never changed

-- Returns the request that begins at argument `at`, and the place of the next one.
local function request_read(at, before)
  local worker, worker_json, count = unpack(ctx.args, at, at + 2)
  if count == '' then
    return {worker = worker, worker_json = worker_json, count = before.count, visibility = before.visibility, fetch_id = '',
      pool = before.pool, how = before.how, tenant = '', queues = before.queues, beside = requests, served = nil,
      limits = nil, queue_limit = nil, ids = '', got = 0}, at + 3
  end
  local visibility, fetch_id, pool, how, tenant, size = unpack(ctx.args, at + 3, at + 8)
  size = number_in(size)
  local queues = size > 0 and {} or NONE
  for position = 1, size do queues[position] = ctx.args[at + 8 + position] end
  return {worker = worker, worker_json = worker_json, count = number_in(count), visibility = number_in(visibility),
    fetch_id = fetch_id, pool = pool, how = how, tenant = tenant, queues = queues,
    beside = requests, served = nil, limits = nil, queue_limit = nil, ids = '', got = 0}, at + 9 + size
end

local function read_requests(count)
  requests = {}
  local at, request = FIRST, nil
  for index = 1, count do
    request, at = request_read(at, request)
    requests[index] = request
    source.wanted_total = source.wanted_total + request.count
  end
end

local function may_serve(worker)
  return worker == '' or not has_halted or call('SISMEMBER', ctx.prefix .. 'halted', worker) == 0
end

-- Signals the planner that a queue with staged jobs runs low, and records since when workers have
-- found it empty.
local function signal_planner(unmet)
  apply_deferred()
  local asked = {}
  for _, request in ipairs(requests) do
    for _, queue in ipairs(request.served or {}) do asked[queue] = true end
  end
  for queue in pairs(asked) do
    local low = call('HMGET', ctx.prefix .. 'low_water', 'mark ' .. queue, 'dry ' .. queue)
    if low[1] then
      local depth = queue_depth(queue)
      if depth < tonumber(low[1]) then
        call('HSET', ctx.prefix .. 'low_water', 'mark ' .. queue, '0')
        signal('low ' .. queue)
      end
      if depth <= 0 and unmet[queue] and not low[2] then call('HSET', ctx.prefix .. 'low_water', 'dry ' .. queue, ctx.now_text) end
    end
  end
end

local function lease(job, lane, request)
  local since = number_in(job.enqueued) or ctx.now
  pace[job.queue] = (pace[job.queue] or 0) + 1099511627776 + math.max(ctx.now - since, 0)
  job.pool = strategy.lease_under(job.queue, job.id, job.rule, lane, request, since)
  if job.put_off then strategy.report_postponed(job) end
  if job_expiry(job) then gather('ZREM', job_module.DUE, job.id) end
  job_move(job, 'active')
  job.attempt, job.started = job.attempt + 1, ctx.now_text
  job.period = request.visibility and int(request.visibility) or ''
  job.visible_until = int(ctx.now + (request.visibility or number_in(job.visibility) or ctx.settings.visibility))
  if request.worker ~= '' then
    job.worker = request.worker
    worker_jobs.add(request.worker, job.id)
  end
  gather('ZADD', job_module.LEASES, int(lease_deadline(job)), job.id)
  job_save(job)
  emit('job.started', job, '"state":"active","attempt":' .. job.attempt .. ',"worker_id":' .. request.worker_json)
end

-- Leases a job. Returns its view, or nil if the job does not exist.
local function lease_and_show(id, lane, request)
  local job = job_load(id, nil, lane.record_of == id and lane.record or nil)
  if not job then return nil end
  lease(job, lane, request)
  return job_view(job)
end

-- Leases the next job for a request. Returns its id and view, or nil if there is none.
local function fetch_one(request, turn)
  while true do
    local id, lane
    if request.tenant == '' then id, lane = strategy.turn_next(turn) else id, lane = strategy.tenant_next(turn, request.tenant) end
    if not id then return nil end
    local view = lease_and_show(id, lane, request)
    if view then return id, view end
  end
end

local function fetch(request)
  if not may_serve(request.worker) then return {} end
  local refused = strategy.admit(request)
  if refused then return refused end
  local turn = strategy.turn_open(request)
  local id, answer = fetch_one(request, turn)
  if not id then return {} end
  local got = 1
  if request.count > 1 then -- most requests want one job: no list is built
    local ids, views = {id}, {answer}
    while got < request.count do
      local another, view = fetch_one(request, turn)
      if not another then break end
      got = got + 1
      ids[got], views[got] = another, view
    end
    id = concat(ids, ' ')
    if got > 1 then answer = views end
  end
  request.got, request.ids = got, id
  if request.fetch_id ~= '' then call('SET', ctx.prefix .. 'fetch:' .. request.fetch_id, request.ids, 'PX', REPLAY_MS) end
  return answer
end

-- Returns the views of those jobs that the worker still holds.
local function replayed(ids, worker)
  local views = {}
  for id in string.gmatch(ids, '%S+') do
    local job = job_load(id)
    if job and job.state == 'active' and job.worker == worker then views[#views + 1] = job_view(job) end
  end
  return views
end

local function answer_request(request)
  local before = request.fetch_id ~= '' and call('GET', ctx.prefix .. 'fetch:' .. request.fetch_id)
  if before then return replayed(before, request.worker) end
  return fetch(request)
end

-- Adds dispatched jobs and their waiting times to the sums of this second. One HMGET and one HSET
-- suffice, because a call leases few jobs. A sum is exact up to 8,192 jobs of a queue per second.
local function pace_write()
  local key, second = ctx.prefix .. 'pace:' .. int(math.floor(ctx.now / 60000)), ' ' .. int(math.floor(ctx.now / 1000))
  local fields, words, is_new = {}, {}, false
  for queue in pairs(pace) do fields[#fields + 1] = queue .. second end
  local sums = call('HMGET', key, unpack(fields))
  local place = 0
  for _, by in pairs(pace) do
    place = place + 1
    is_new = is_new or not sums[place]
    words[#words + 1], words[#words + 2] = fields[place], int((tonumber(sums[place] or nil) or 0) + by)
  end
  call('HSET', key, unpack(words))
  if is_new then call('PEXPIRE', key, '180000') end
end

local function run()
  local slot, call_number, is_resend, request_count = unpack(ctx.args, 9, 12)
  request_count = tonumber(request_count)
  read_requests(math.abs(request_count))
  strategy = strategy_for(requests)
  strategy.begin(requests)
  has_halted, pace = (tonumber(ctx.state.halted) or 0) > 0, {}
  if ctx.state.recalled and find(ctx.state.recalled, slot, 1, true) then return {{}, 0, {}} end -- given up: `commands/recall`
  local call_key = ctx.prefix .. 'call:' .. slot
  local number, leased = match(is_resend == '1' and call('GET', call_key) or '', '^(%d+) %d+ (.*)$')
  local answers = {}
  if number == call_number then
    local index = 0
    for ids in string.gmatch(leased, '([^,]*),') do
      index = index + 1
      answers[index] = replayed(ids, requests[index].worker)
    end
    return {answers, 0, {}, {}}
  end

  local waits_for_due = request_count > 0
  if waits_for_due and (is_due(job_module.DUE) or is_due(job_module.LEASES)) then return 'due' end
  local all_awake = strategy.wake_due(waits_for_due)
  if all_awake == nil then return 'due' end
  local record, found, unmet, met = {}, false, {}, {}
  local limit_usage = ctx.state.limits and strategy.limit_usage
  for index, request in ipairs(requests) do
    answers[index] = guarded(answer_request, request)
    found = found or request.got > 0
    if request.got < request.count then
      for _, queue in ipairs(request.served or request.queues) do unmet[queue] = true end
    end
    record[index] = request.ids .. ','
    if limit_usage then met[index] = limit_usage(request) end
  end
  strategy.levels_close()
  sources_close()
  strategy.turns_close()
  if (tonumber(ctx.state.staged) or 0) > 0 then signal_planner(unmet) end
  if found then call('SET', call_key, call_number .. ' ' .. ctx.now_text .. ' ' .. concat(record), 'PX', RECALL_MS) end
  if next(pace) then pace_write() end
  commit()
  return {answers, (strategy.is_unfinished() or not all_awake) and 1 or 0, strategy.metrics(), met}
end

return run
