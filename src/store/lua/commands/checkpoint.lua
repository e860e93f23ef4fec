-- Stores a checkpoint of a job for its next attempt, in place of the one before, or removes it.
--
-- chk:ID  hash  s: state as JSON, n: number of checkpoints so far, t: time of the last one, op: its
--               operation; ends with the job
--
-- ARGV[9…]
--   id      job
--   action  `put` or `drop`
--   state   the checkpoint, as JSON
--   op      id of this operation; if it is repeated, the first result is returned
--   tenant  the only tenant visible to the caller, or '' for all
--
-- Returns  {n, t}, {'missing'} or {'conflict', state}

local ctx = require('lib/context')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local commit, emit, int = runtime.commit, runtime.emit, runtime.int
local job_load, job_save, mark, marked = job_module.load, job_module.save, job_module.mark, job_module.marked
local unmark = job_module.unmark
local call = redis.call

local function run()
  local id, action, state, op, tenant = unpack(ctx.args, 9, 13)
  local job = job_load(id, tenant)
  if not job then return {'missing'} end
  local key = ctx.prefix .. 'chk:' .. job.id
  if action == 'drop' then
    if call('UNLINK', key) == 1 then
      unmark(job, 'k')
      if job.finished == '' then job_save(job) else job_save(job, math.max(call('PTTL', job.key), 1)) end
    end
    return {'0', ctx.now_text}
  end
  local kept = call('HMGET', key, 'n', 't', 'op')
  if kept[3] == op then return {kept[1], kept[2]} end -- a resend
  if job.finished ~= '' then return {'conflict', job.state} end
  local number = int((tonumber(kept[1] or nil) or 0) + 1)
  call('HSET', key, 's', state, 'n', number, 't', ctx.now_text, 'op', op)
  if not marked(job, 'k') then
    mark(job, 'k')
    job_save(job)
  end
  emit('job.checkpointed', job, '"attempt":' .. job.attempt .. ',"sequence":' .. number)
  commit()
  return {number, ctx.now_text}
end

return run
