-- Removes staged jobs of a Sidekiq from staging and hands them back to their source, directly or
-- through an outbox. Jobs come newest first.
--
-- outbox:S   list  entries for source S in another Redis: `origin US sequence US US tenant US text
--                  US …`
-- returned   hash  source → last sequence of its outbox
-- release:M  hash  `commands/hold_release`
--
-- Takes
--   main     string  main queue
--   token    string  token of the release
--   life     number  ms for which the release holds
--   call_id  string  id of this call
--   route    how the Sidekiq's Redis is reached: `here`, {database: {theirs: number, ours: number}}
--            or {outbox: {origin: string}} with the origin of this fairgate
--   source   string  name of the source
--   words    list of string  words that describe the source (`sidekiq/restore`)
--   jobs     list of {id: string, tenant: string, text: string}  tenant in the gem or ''
--
-- Returns  {done: {missing: list of string}} with the ids that are not staged, `lost` if the release
--          no longer holds, or `locked` if another process holds the locks of the gem

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_counts = require('tenants/job_counts')
local job_module = require('queue/job')
local stage = require('staging/stage')
local restore_module = require('sidekiq/restore')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, count, emit, int = runtime.commit, runtime.count, runtime.emit, runtime.int
local count_tenant = job_counts.count_tenant
local job_load, marked = job_module.load, job_module.marked
local job_unstage = stage.job_unstage
local restore = restore_module.restore
local write = packed.write
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local function run()
  local args = packed.read()
  local source, database, outbox = args.source, args.route.database, args.route.outbox
  local release = ctx.prefix .. 'release:' .. args.main
  local held = call('HMGET', release, 'token', 'last')
  if held[1] ~= args.token then return write('lost') end
  local last, ids = match(held[2] or '', '^(%S+)(.*)$')
  local missing = {}
  if args.is_resend and last == args.call_id then
    for id in string.gmatch(ids, '%S+') do missing[#missing + 1] = id end
    return write({done = {missing = missing}})
  end

  local jobs, texts = {}, {}
  for _, restored in ipairs(args.jobs) do
    local job = job_load(restored.id)
    if job and marked(job, 's') and find(job.push or '', '^d') then
      jobs[#jobs + 1], texts[#texts + 1], texts[#texts + 2] = job, restored.tenant, restored.text
    else
      missing[#missing + 1] = restored.id
    end
  end

  -- Hands the texts over. Returns false if another process holds the locks of the gem; then nothing
  -- has been written.
  local function hand_over()
    if outbox then
      -- Derived from the clock, as in `staging/outbox_target`.
      local number = math.max((tonumber(call('HGET', ctx.prefix .. 'returned', source) or nil) or 0) + 1, ctx.now * 1000)
      call('RPUSH', ctx.prefix .. 'outbox:' .. source, wire.join(outbox.origin, int(number), '', wire.join_list(texts)))
      call('HSET', ctx.prefix .. 'returned', source, int(number))
      return true
    end
    if database then call('SELECT', database.theirs) end
    local is_there = restore(call, args.words, texts)
    if database then call('SELECT', database.ours) end
    return is_there
  end

  if #jobs > 0 and not hand_over() then return write('locked') end
  local keys = {}
  for _, job in ipairs(jobs) do
    job_unstage(job)
    count_tenant(job.tenant, 'pending', -1)
    count(job.queue, 'pending', -1)
    emit('job.released', job, '"main_queue":"' .. args.main .. '"')
    keys[#keys + 1] = job.key
    if job.apart then keys[#keys + 1] = ctx.prefix .. 'env:' .. job.id end
  end
  if #keys > 0 then call('UNLINK', unpack(keys)) end
  call('HSET', release, 'last', concat({args.call_id, unpack(missing)}, ' '))
  call('PEXPIRE', release, int(args.life))
  commit()
  return write({done = {missing = missing}})
end

return run
