-- Unique jobs.
--
-- key       type  meaning
-- unique:K  zset  jobs with the unique key K that may be duplicates: at +inf if they have not
--                 ended, else at the time until which they are kept, if their policy counts them
--
-- The set is only an index. The state that decides is read from the job's record, so a job that
-- changes its state need not update the set. A policy is `key states period conflict`: states as
-- letters, period in ms or `-`.

local ctx = require('lib/context')
local job_module = require('queue/job')
local detach = require('queue/detach')
local unique_set = require('queue/unique_set')
local wire = require('lib/wire')

local job_load = job_module.load
local job_cancel = detach.job_cancel
local call = redis.call
local fields = wire.fields
local find, match = string.find, string.match

local MAX_EXAMINED = 64
local LETTERS = {available = 'v', active = 'a', scheduled = 's', retryable = 'r', pending = 'p', completed = 'c',
  cancelled = 'x', discarded = 'd'}

-- Returns the jobs that a policy counts as duplicates, the newest first. Removes entries of jobs
-- that no longer exist.
local function unique_matches(policy)
  local key, states, period = match(policy, '^(%S+) (%S+) (%S+)')
  local set, found = ctx.prefix .. 'unique:' .. key, {}
  for _, id in ipairs(call('ZREVRANGE', set, 0, MAX_EXAMINED - 1)) do
    local job = job_load(id)
    if not job then
      call('ZREM', set, id)
    elseif find(states, LETTERS[job.state], 1, true) and (period == '-' or tonumber(job.created) + tonumber(period) > ctx.now) then
      found[#found + 1] = job
    end
  end
  return found
end

local function policy_in(more)
  return more ~= '' and fields(more).unique
end

-- Returns the duplicate of a job with these further fields, or nil.
local function existing_of(more)
  local policy = policy_in(more)
  return policy and unique_matches(policy)[1]
end

-- Returns the result that refuses the request as a whole because one of its jobs has a duplicate,
-- which may be in the same request; else nil.
local function conflict_of(first, jobs, words)
  local seen
  for index = 0, jobs - 1 do
    local at = first + index * words
    local policy = policy_in(ctx.args[at + 5])
    if policy then
      local key, states, conflict = match(policy, '^(%S+) (%S+) %S+ (%S+)')
      if conflict == 'reject' then
        local existing = unique_matches(policy)[1]
        if not existing and seen and seen[key] and find(states, '[vsp]') then existing = {id = seen[key], state = 'available'} end
        if existing then return wire.join('exists', index, existing.id, existing.state, key) end
      end
      seen = seen or {}
      seen[key] = ctx.args[at]
    end
  end
end

-- Adds a unique job to the set and resolves conflicts. Returns the further fields of the new job,
-- which change if it takes over the time of a job that it replaces. Returns the duplicate as well
-- if the new job is to be ignored.
local function claim(job, more)
  local conflict = match(job.unique, '%S+$')
  for _, other in ipairs(unique_matches(job.unique)) do
    if conflict == 'ignore' then return more, other end
    if conflict == 'replace_except_schedule' and other.state == 'scheduled' and other.due then
      job.due, more = tonumber(other.due), wire.set_field(more, 'due', other.due)
      conflict = 'replace'
    end
    if other.finished == '' then
      job_cancel(other, ',"reason":"replaced","replaced_by":"' .. job.id .. '"')
    end
  end
  unique_set.add(job)
  return more
end

return {existing = existing_of, conflict = conflict_of, claim = claim}
