-- Tenant activity, noted for statistics. It is the last record of the call's events; `store/activity.rs` adds it up into buckets.
-- Adding up here would cost an enqueue two fifths more, and even one command of its own 7 %.
--
-- The record is SUB and then `tenant GS kind GS number GS more`, separated by FS. Kinds: `s`, jobs stored and the requests that brought
-- them; `c`, attempts that succeeded and for how many milliseconds workers had the tenant's jobs; `f`, attempts that failed. A tenant may
-- stand there several times: what follows each other is put together here, and all of it in Rust.
--
-- Jobs without a tenant are those of the default one. Nothing is noted while `state.throttled` is missing: see `commands/noisy_snapshot`.

local ctx = require('lib/context')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local appliers, on_begin, defer, int = runtime.appliers, runtime.on_begin, runtime.defer, runtime.int
local on_commit = runtime.on_commit

local is_counted, parts
local tenant, kind, number, more -- the record that is being put together

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

appliers.did = add

-- Attempts of a tenant succeeded (`c`) or failed (`f`), or a worker had its jobs for so many milliseconds.
local function did(of, what, by, ms)
  if is_counted then defer('did', of or '_default', what, by, math.max(ms or 0, 0)) end
end

appliers.stored = function(queue, state, of, is_push)
  appliers.count(queue, state, 1)
  if is_counted then add(of, 's', 1, is_push and 1 or 0) end
end

-- A job of a tenant was stored; `is_push` if it is the tenant's first of a request.
local function job_stored(queue, state, of, is_push)
  defer('stored', queue, state, of, is_push)
end

-- The activity of this call, if there was any.
on_commit('activity', function()
  if not tenant then return nil end
  parts = parts or {}
  parts[#parts + 1] = record()
  return wire.SUBSTITUTE .. table.concat(parts, wire.FILE)
end)

return {did = did, job_stored = job_stored}
