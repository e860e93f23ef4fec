-- Stores a checkpoint of a job for its next attempt, in place of the one before, or removes it.
--
-- chk:ID  hash  s: state as JSON, n: number of checkpoints so far, t: time of the last one, op: its
--               operation; ends with the job
--
-- Takes
--   id      string   job
--   state   string?  the checkpoint, as JSON; nil to remove it
--   op      string   id of this operation; if it is repeated, the first result is returned
--   tenant  string   the only tenant visible to the caller, or '' for all
--
-- Returns  {done: {sequence: number, created: number}}, `missing` or {conflict: {state: string}}

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')
local runtime = require('lib/runtime')

local commit, emit, int = runtime.commit, runtime.emit, runtime.int
local job_load, job_save, mark, marked = job_module.load, job_module.save, job_module.mark, job_module.marked
local unmark = job_module.unmark
local write = packed.write
local call = redis.call

local function done(sequence, created)
  return write({done = {sequence = sequence, created = created}})
end

local function run()
  local args = packed.read()
  local job = job_load(args.id, args.tenant)
  if not job then return write('missing') end
  local key = ctx.prefix .. 'chk:' .. job.id
  if not args.state then
    if call('UNLINK', key) == 1 then
      unmark(job, 'k')
      if job.finished == '' then job_save(job) else job_save(job, math.max(call('PTTL', job.key), 1)) end
    end
    return done(0, ctx.now)
  end
  local kept = call('HMGET', key, 'n', 't', 'op')
  if kept[3] == args.op then return done(tonumber(kept[1]), tonumber(kept[2])) end -- a resend
  if job.finished ~= '' then return write({conflict = {state = job.state}}) end
  local sequence = tonumber(kept[1] or 0) + 1
  call('HSET', key, 's', args.state, 'n', int(sequence), 't', ctx.now_text, 'op', args.op)
  if not marked(job, 'k') then
    mark(job, 'k')
    job_save(job)
  end
  emit('job.checkpointed', job, '"attempt":' .. job.attempt .. ',"sequence":' .. int(sequence))
  commit()
  return done(sequence, ctx.now)
end

return run
