-- Ends jobs. A finished job is kept for its retention; then all its keys expire.
--
-- key         type    meaning
-- finished:S  zset    finished jobs by state S, scored by time
-- dead        zset    jobs in the dead letter, scored by time

local ctx = require('lib/context')
local job_module = require('queue/job')
local unique_set = require('queue/unique_set')
local runtime = require('lib/runtime')

local on_begin, gather, int = runtime.on_begin, runtime.gather, runtime.int
local job_move, job_save, mark = job_module.move, job_module.save, job_module.mark
local marked = job_module.marked
local call = redis.call

local M = {}

local SHORTEST = 10000
-- By state in which a job ends: the setting for how many ms its keys are kept.
local RETENTION = {completed = 'completed', cancelled = 'cancelled', discarded = 'discarded', dead_letter = 'dead_letter',
  forwarded = 'completed'}

-- Returns for how many ms jobs are kept that ended in a state.
local function retention(state)
  return ctx.settings[RETENTION[state]]
end

-- Advances the workflow of a job that ended. `workflows/workflow` sets it; in scripts without that
-- module, it leaves the work to the tick.
M.advance_workflow = nil

local function leave_to_tick(job, state)
  gather('RPUSH', ctx.prefix .. 'workflows:todo', 'ended ' .. job.workflow .. ' ' .. job.node .. ' ' .. job.id .. ' ' .. state)
end

on_begin(function()
  M.advance_workflow = leave_to_tick
end)

-- By mark: the key that a job with this mark has.
local MARKED_KEYS = {f = 'err:', p = 'prog:', k = 'chk:'}

local function keys_expire(job, keep_ms)
  for letter, key in pairs(MARKED_KEYS) do
    if marked(job, letter) then call('PEXPIRE', ctx.prefix .. key .. job.id, keep_ms) end
  end
end

-- Moves a job to its final state and saves it.
local function job_finish(job, state, dead)
  job_move(job, state)
  job.finished = ctx.now_text
  gather('ZADD', ctx.prefix .. 'finished:' .. state, ctx.now_text, job.id)
  if dead then
    gather('ZADD', ctx.prefix .. 'dead', ctx.now_text, job.id)
    mark(job, 'd')
  end
  -- A call that is sent again because its reply was lost must still find the job.
  local keep_ms = int(math.max(retention(dead and 'dead_letter' or state), SHORTEST))
  if job.unique then unique_set.release(job, state, keep_ms) end
  if job.result then
    call('SET', ctx.prefix .. 'res:' .. job.id, job.result, 'PX', keep_ms)
  elseif marked(job, 'r') then
    call('PEXPIRE', ctx.prefix .. 'res:' .. job.id, keep_ms)
  end
  if job.apart then call('PEXPIRE', ctx.prefix .. 'env:' .. job.id, keep_ms) end
  if job.marks ~= '' then keys_expire(job, keep_ms) end
  if job.workflow then M.advance_workflow(job, state, keep_ms) end
  job_save(job, keep_ms) -- last, so that an error above leaves the job as it was
end

local function job_erase(id)
  call('UNLINK', ctx.prefix .. 'job:' .. id, ctx.prefix .. 'env:' .. id, ctx.prefix .. 'err:' .. id, ctx.prefix .. 'res:' .. id, ctx.prefix .. 'prog:' .. id,
    ctx.prefix .. 'chk:' .. id, ctx.prefix .. 'par:' .. id)
end

M.SHORTEST = SHORTEST
M.retention = retention
M.job_erase = job_erase
M.job_finish = job_finish

return M
