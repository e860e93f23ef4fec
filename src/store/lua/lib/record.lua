-- The record of a job. It is one string, because a key costs more than anything inside it:
--
--   CHANGING RS FIXED RS envelope
--
-- CHANGING  the fields below, separated by US and empty if there is nothing. `marks` are letters: f has failures, e the last of
--           them still counts, r has a result, d dead letter, x expired, s staged, l put off by a limit, p reported progress,
--           k has a checkpoint, c cancelled with its workflow while it ran, h handed to another system
-- FIXED     queue US type US lane US, and further fields as pairs of name and value (`lib/wire`)
-- envelope  the client's text, opaque to scripts (cjson would change `[]` and large integers); empty if it has a key of its own
--
-- `src/store/codec/record.rs` reads the same, and a test compares the lists.

local int = require('lib/number').int
local wire = require('lib/wire')

local fields = wire.fields
local concat, find, match, rep, sub = table.concat, string.find, string.match, string.rep, string.sub

local CHANGING = {'state', 'attempt', 'seq', 'created', 'enqueued', 'started', 'finished', 'visible_until', 'worker', 'op',
  'period', 'stalled_at', 'next_retry', 'retry_delay', 'activated', 'pool', 'marks'}
local DECODED = '^' .. rep('([^\31]*)\31', #CHANGING - 1) .. '([^\30]*)\30()([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\30]*)\30'
local FIXED = '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\30]*)\30()'
local HEAD = '^(%l+)\31([^\31]*)\31[^\31]*\31[^\31]*\31[^\31]*\31([^\31]*)'

-- The job of a record, as a table of all its fields; `text` and `rest` are the record and where in it FIXED begins.
local function decode(id, key, text)
  local state, attempt, seq, created, enqueued, started, finished, visible_until, worker, op, period, stalled_at, next_retry,
    retry_delay, activated, pool, marks, rest, queue, type, lane, more = match(text, DECODED)
  -- All at once: a table that grows field by field is laid out again five times.
  local job = {id = id, key = key, text = text, rest = rest, state = state, attempt = tonumber(attempt), seq = seq,
    created = created, enqueued = enqueued, started = started, finished = finished, visible_until = visible_until,
    worker = worker, op = op, period = period, stalled_at = stalled_at, next_retry = next_retry, retry_delay = retry_delay,
    activated = activated, pool = pool, marks = marks, queue = queue, type = type, lane = lane}
  if more ~= '' then
    for name, value in pairs(fields(more)) do job[name] = value end
  end
  return job
end

-- The record of a job whose changing fields have changed. The job goes on with it.
local function encode(job)
  local rest = sub(job.text, job.rest)
  local text = job.state .. '\31' .. int(job.attempt) .. '\31' .. job.seq .. '\31' .. job.created .. '\31' .. job.enqueued
    .. '\31' .. job.started .. '\31' .. job.finished .. '\31' .. job.visible_until .. '\31' .. job.worker .. '\31' .. job.op
    .. '\31' .. job.period .. '\31' .. job.stalled_at .. '\31' .. job.next_retry .. '\31' .. job.retry_delay
    .. '\31' .. job.activated .. '\31' .. job.pool .. '\31' .. job.marks .. '\30' .. rest
  job.text, job.rest = text, #text - #rest + 1
  return text
end

-- The record of a new job, given the fields that a new job may have.
local function new(state, seq, created, enqueued, marks, queue, type, lane, more, envelope)
  return state .. '\0310\31' .. seq .. '\31' .. created .. '\31' .. enqueued .. '\31\31\31\31\31\31\31\31\31\31\31\31' .. marks
    .. '\30' .. queue .. '\31' .. type .. '\31' .. lane .. '\31' .. more .. '\30' .. envelope
end

-- Queue, type, lane and further fields of a record; callers share the table of these.
local function fixed(text)
  local queue, type, lane, more = match(text, FIXED, find(text, '\30', 1, true) + 1)
  return queue, type, lane, fields(more)
end

-- Whose job a record is.
local function tenant(text)
  local _, _, _, further = fixed(text)
  return further.tenant or '_default'
end

-- Where in a record the envelope begins.
local function envelope_at(text)
  local _, _, _, _, at = match(text, FIXED, find(text, '\30', 1, true) + 1)
  return at
end

-- State, attempt and start, given at least the beginning of a record.
local function head(text)
  return match(text, HEAD)
end

-- Changes FIXED of a job's record: `change` gets its lane and further fields, and returns them.
local function change_fixed(job, change)
  local text = job.text
  local queue, type, lane, more, envelope = match(text, FIXED, job.rest)
  lane, more = change(lane, more)
  job.text = sub(text, 1, job.rest - 1) .. queue .. '\31' .. type .. '\31' .. lane .. '\31' .. more .. '\30' .. sub(text, envelope)
end

-- Sets a further field, or removes it if there is no value.
local function set(job, name, value)
  change_fixed(job, function(lane, more) return lane, wire.set_field(more, name, value) end)
  job[name] = value
end

-- Sets the lane that a job is enqueued for.
local function set_lane(job, lane)
  change_fixed(job, function(_, more) return lane, more end)
  job.lane = lane
end

-- A record followed by what is kept apart from it: its parts are texts, '' for those that do not exist.
local function view(text, failures, result, envelope, checkpoint, inputs)
  return concat({text, concat(failures, '\29'), result, envelope, concat(checkpoint, '\31'), inputs}, '\30')
end

return {
  CHANGING = CHANGING,
  decode = decode, encode = encode, new = new, set = set, set_lane = set_lane, view = view,
  fixed = fixed, tenant = tenant, envelope_at = envelope_at, head = head,
}
