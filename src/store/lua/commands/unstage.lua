-- Removes staged jobs of a Sidekiq from staging and hands them back to their source, directly or
-- through an outbox. Jobs come newest first.
--
-- outbox:S   list  entries for source S in another Redis: `origin US sequence US US tenant US text
--                  US …`
-- returned   hash  source → last sequence of its outbox
-- release:M  hash  `commands/hold_release`
--
-- ARGV[9…]
--   main                    main queue
--   token                   token of the release
--   life                    ms for which the release holds
--   call_id                 id of this call
--   is_resend               1 if this call is a resend
--   route                   how the Sidekiq's Redis is reached: `here`, `database` or `outbox`
--   database, own_database  databases of the Sidekiq and of fairgate, or ''
--   origin                  origin of this fairgate, or ''
--   source                  name of the source
--   words                   number of words that describe the source, then the words
--                           (`sidekiq/restore`)
--   …                       for each job: id, tenant in the gem or '', text
--
-- Returns  {'ok', ids that are not staged, …}, {'lost'} if the release no longer holds, or
--          {'locked'} if another process holds the locks of the gem

local ctx = require('lib/context')
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
local call = redis.call
local concat, find, match = table.concat, string.find, string.match

local function run()
  local main, token, life, call_id, is_resend, route, database, own_database, origin, source_name, word_count = unpack(ctx.args, 9, 19)
  local release = ctx.prefix .. 'release:' .. main
  local held = call('HMGET', release, 'token', 'last')
  if held[1] ~= token then return {'lost'} end
  local last, missing = match(held[2] or '', '^(%S+)(.*)$')
  local answer = {'ok'}
  if is_resend == '1' and last == call_id then
    for id in string.gmatch(missing, '%S+') do answer[#answer + 1] = id end
    return answer
  end

  local words = tonumber(word_count)
  local source, jobs, texts = {unpack(ctx.args, 20, 19 + words)}, {}, {}
  for at = 20 + words, #ctx.args, 3 do
    local id, tenant, text = unpack(ctx.args, at, at + 2)
    local job = job_load(id)
    if job and marked(job, 's') and find(job.push or '', '^d') then
      jobs[#jobs + 1], texts[#texts + 1], texts[#texts + 2] = job, tenant, text
    else
      answer[#answer + 1] = id
    end
  end

  -- Hands the texts over. Returns false if another process holds the locks of the gem; then nothing
  -- has been written.
  local function hand_over()
    if route == 'outbox' then
      -- Derived from the clock, as in `staging/outbox_target`.
      local number = math.max((tonumber(call('HGET', ctx.prefix .. 'returned', source_name) or nil) or 0) + 1, ctx.now * 1000)
      call('RPUSH', ctx.prefix .. 'outbox:' .. source_name, wire.join(origin, int(number), '', wire.join_list(texts)))
      call('HSET', ctx.prefix .. 'returned', source_name, int(number))
      return true
    end
    if route == 'database' then call('SELECT', database) end
    local is_there = restore(call, source, texts)
    if route == 'database' then call('SELECT', own_database) end
    return is_there
  end

  if #jobs > 0 and not hand_over() then return {'locked'} end
  local keys = {}
  for _, job in ipairs(jobs) do
    job_unstage(job)
    count_tenant(job.tenant, 'pending', -1)
    count(job.queue, 'pending', -1)
    emit('job.released', job, '"main_queue":"' .. main .. '"')
    keys[#keys + 1] = job.key
    if job.apart then keys[#keys + 1] = ctx.prefix .. 'env:' .. job.id end
  end
  if #keys > 0 then call('UNLINK', unpack(keys)) end
  call('HSET', release, 'last', concat({call_id, unpack(answer, 2)}, ' '))
  call('PEXPIRE', release, life)
  commit()
  return answer
end

return run
