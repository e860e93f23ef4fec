-- Records the activity of tenants for statistics, as the last record of the call's events.
-- `src/store/commands/activity.rs` adds it up. Adding up in Lua would cost an enqueue 40 % more, and
-- a Redis command of its own 7 %.
--
-- The record is SUB, then `tenant GS kind GS number GS more` for each entry, separated by FS:
--   s  number of jobs stored, and of requests that brought them
--   c  number of attempts that succeeded, and ms during which workers held the tenant's jobs
--   f  number of attempts that failed
--
-- Consecutive entries of one tenant and kind are merged here, all others in Rust. Jobs without a
-- tenant belong to the default tenant. Nothing is recorded while `state.throttled` is missing:
-- `commands/noisy_snapshot`.

local ctx = require('lib/context')
local add_stored = require('tenants/job_counts').add_stored
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local appliers, on_begin, defer, int = runtime.appliers, runtime.on_begin, runtime.defer, runtime.int
local on_commit = runtime.on_commit

local is_counted, parts
local tenant, kind, number, more -- the entry that is being merged

on_begin(function()
  is_counted, parts, tenant = ctx.state.throttled, nil, nil
end)

local function record()
  return table.concat({tenant, kind, int(number), int(more)}, wire.GROUP)
end

local function add(of, what, by, by_more)
  if of == tenant and what == kind then
    number, more = number + by, more + by_more
  else
    if tenant then
      parts = parts or {}
      parts[#parts + 1] = record()
    end
    tenant, kind, number, more = of, what, by, by_more
  end
end

appliers.attempts = function(of, what, _, _, by, ms)
  add(of, what, by, ms)
end

-- Records that attempts of a tenant succeeded (`c`) or failed (`f`), or that a worker held its jobs
-- for some ms.
local function count_attempts(of, what, by, ms)
  if is_counted then defer('attempts', of or '_default', what, nil, nil, by, ms and ms > 0 and ms or 0) end
end

appliers.stored = function(queue, state, of, _, jobs, pushes)
  add_stored(queue, state, of, jobs)
  if is_counted then add(of, 's', jobs, pushes) end
end

-- Counts a stored job, or a staged one if its state is `staged`. `pushes` is 1 for the first job of
-- a tenant in a request, otherwise 0.
local function count_stored(queue, state, of, pushes)
  defer('stored', queue, state, of, nil, 1, pushes)
end

-- Returns the record of this call, or nil.
on_commit('activity', function()
  if not tenant then return nil end
  parts = parts or {}
  parts[#parts + 1] = record()
  return wire.SUBSTITUTE .. table.concat(parts, wire.FILE)
end)

return {count_attempts = count_attempts, count_stored = count_stored}
