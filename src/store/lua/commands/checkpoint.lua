-- Keeps where a job's work has got to, for its next attempt; replaces what was kept before, or forgets it.
--
-- chk:ID  hash  s (state as JSON), n (how many were kept), t (when); goes with the job
--
-- ARGV[9…] id, `put` or `drop`, the state, op, the one tenant whose jobs are there or ''
-- Returns  {n, t} or {'missing'} or {'conflict', state}

local ctx = require('lib/context')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local commit, emit, int = runtime.commit, runtime.emit, runtime.int
local job_load, job_save, mark, marked = job_module.load, job_module.save, job_module.mark, job_module.marked
local unmark = job_module.unmark
local call = redis.call

local function run()
  local job = job_load(ctx.args[9], ctx.args[13])
  if not job then return {'missing'} end
  local key = ctx.prefix .. 'chk:' .. job.id
  if ctx.args[10] == 'drop' then
    if call('UNLINK', key) == 1 then
      unmark(job, 'k')
      if job.finished == '' then job_save(job) else job_save(job, math.max(call('PTTL', job.key), 1)) end
    end
    return {'0', ctx.now_text}
  end
  local kept = call('HMGET', key, 'n', 't', 'op')
  if kept[3] == ctx.args[12] then return {kept[1], kept[2]} end -- sent again
  if job.finished ~= '' then return {'conflict', job.state} end
  local number = int((tonumber(kept[1] or nil) or 0) + 1)
  call('HSET', key, 's', ctx.args[11], 'n', number, 't', ctx.now_text, 'op', ctx.args[12])
  if not marked(job, 'k') then
    mark(job, 'k')
    job_save(job)
  end
  emit('job.checkpointed', job, '"attempt":' .. job.attempt .. ',"sequence":' .. number)
  commit()
  return {number, ctx.now_text}
end

return run
