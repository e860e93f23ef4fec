-- The record of a job. It is one string, because an additional key costs more memory than anything
-- inside the record:
--
--   CHANGING RS FIXED RS envelope
--
-- CHANGING  the fields below, separated by US, empty if unset
-- FIXED     queue US type US lane US, then further fields as pairs of name and value (`lib/wire`)
-- envelope  the client's JSON text, which scripts never decode (cjson would change `[]` and large
--           integers); empty if it is stored under `env:ID`
--
-- Changing fields whose names do not say enough; times are in ms:
--   op           id of the last answer, so that a repeated one is recognized
--   period       visibility timeout that the fetch asked for
--   stalled_at   time at which the job fails unless its worker sends a heartbeat
--   activated    time at which a client activated the pending job
--   retry_delay  delay before the next attempt; `next_retry` is its time
--   marks        letters: f has failures, e the last failure still counts, r has a result, d dead
--                letter, x expired, s staged, l postponed by a limit, p reported progress, k has a
--                checkpoint, c cancelled with its workflow while it ran, h handed over to another
--                system
--
-- `src/store/codec/record.rs` reads the same format, and a test compares the lists of fields. A new
-- changing field needs a place in CHANGING, `decode`, `encode` and `new` here, and in CHANGING and
-- `read_changing` there; a member of jobs in answers also needs `src/domain/job/record.rs`,
-- `src/domain/job/members.rs` and `src/api/openapi/job_schemas.rs`.

local number = require('lib/number')
local wire = require('lib/wire')

local int, number_in = number.int, number.number_in
local fields, set_field = wire.fields, wire.set_field
local concat, find, match, rep, sub = table.concat, string.find, string.match, string.rep, string.sub

local CHANGING = {'state', 'attempt', 'seq', 'created', 'enqueued', 'started', 'finished', 'visible_until', 'worker', 'op',
  'period', 'stalled_at', 'next_retry', 'retry_delay', 'activated', 'pool', 'marks'}
local DECODED = '^' .. rep('([^\31]*)\31', #CHANGING - 1) .. '([^\30]*)\30([^\31]*)\31([^\31]*)\31([^\31]*)\31()'
local FIXED = '^([^\31]*)\31([^\31]*)\31([^\31]*)\31()'
local HEAD = '^(%l+)\31([^\31]*)\31[^\31]*\31[^\31]*\31[^\31]*\31([^\31]*)'

-- Decodes a record into a job with all its fields. `text` is the record, `envelope` the position in
-- it at which the envelope begins, and `more` the text of the further fields, which `set` changes.
local function decode(id, key, text)
  local state, attempt, seq, created, enqueued, started, finished, visible_until, worker, op, period, stalled_at, next_retry,
    retry_delay, activated, pool, marks, queue, type, lane, further = match(text, DECODED)
  local close = find(text, '\30', further, true) -- faster than a pattern: further fields may be long
  local more = sub(text, further, close - 1)
  -- One constructor with all fields: Lua resizes a table that grows field by field five times.
  local job = {id = id, key = key, text = text, envelope = close + 1, more = more, state = state, attempt = number_in(attempt),
    seq = seq, created = created, enqueued = enqueued, started = started, finished = finished, visible_until = visible_until,
    worker = worker, op = op, period = period, stalled_at = stalled_at, next_retry = next_retry, retry_delay = retry_delay,
    activated = activated, pool = pool, marks = marks, queue = queue, type = type, lane = lane}
  if more ~= '' then
    for name, value in pairs(fields(more)) do job[name] = value end
  end
  return job
end

-- Encodes a job after its fields were changed, and updates `text` and `envelope` of the job.
local function encode(job)
  local envelope = sub(job.text, job.envelope)
  local text = job.state .. '\31' .. int(job.attempt) .. '\31' .. job.seq .. '\31' .. job.created .. '\31' .. job.enqueued
    .. '\31' .. job.started .. '\31' .. job.finished .. '\31' .. job.visible_until .. '\31' .. job.worker .. '\31' .. job.op
    .. '\31' .. job.period .. '\31' .. job.stalled_at .. '\31' .. job.next_retry .. '\31' .. job.retry_delay
    .. '\31' .. job.activated .. '\31' .. job.pool .. '\31' .. job.marks .. '\30' .. job.queue .. '\31' .. job.type
    .. '\31' .. job.lane .. '\31' .. job.more .. '\30' .. envelope
  job.text, job.envelope = text, #text - #envelope + 1
  return text
end

-- Returns the record of a new job.
local function new(state, seq, created, enqueued, marks, queue, type, lane, more, envelope)
  return state .. '\0310\31' .. seq .. '\31' .. created .. '\31' .. enqueued .. '\31\31\31\31\31\31\31\31\31\31\31\31' .. marks
    .. '\30' .. queue .. '\31' .. type .. '\31' .. lane .. '\31' .. more .. '\30' .. envelope
end

-- Returns queue, type, lane and further fields of a record. Callers share the table of further
-- fields and must not change it.
local function fixed(text)
  local queue, type, lane, further = match(text, FIXED, find(text, '\30', 1, true) + 1)
  return queue, type, lane, fields(sub(text, further, find(text, '\30', further, true) - 1))
end

-- Returns the tenant of a record, `_default` if it names none.
local function tenant(text)
  local _, _, _, further = fixed(text)
  return further.tenant or '_default'
end

-- Returns state, attempt and start. The beginning of a record is enough.
local function head(text)
  return match(text, HEAD)
end

-- Sets a further field, or removes it if `value` is nil.
local function set(job, name, value)
  job.more, job[name] = set_field(job.more, name, value), value
end

-- Joins a record with the parts of the job that have keys of their own. A part that does not exist
-- is an empty text or list.
local function view(text, failures, result, envelope, checkpoint, inputs)
  return concat({text, concat(failures, '\29'), result, envelope, concat(checkpoint, '\31'), inputs}, '\30')
end

return {
  decode = decode, encode = encode, new = new, set = set, view = view, fixed = fixed, tenant = tenant, head = head,
}
