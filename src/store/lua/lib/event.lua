-- Events of a call: records of fields, kept as text that only Rust turns into JSON; one stream entry per call.
--
-- An event is kind US job id US type US queue US trace FS tenant US data; a job without a tenant has no FS. What tenants did
-- in the call may follow as the last record: see `tenants/activity`. `src/store/codec/event.rs` reads the same.

local ctx = require('lib/context')

local M = {SEPARATOR = '\30'}

-- The text of an event about a job, or about a subject.
M.text = function(kind, job, data)
  return kind .. '\31' .. job.id .. '\31' .. job.type .. '\31' .. job.queue .. '\31'
    .. (job.trace or '') .. (job.tenant and '\28' .. job.tenant or '') .. '\31' .. (data or '')
end

M.emit = function(kind, job, data)
  local log = ctx.log
  log[#log + 1] = M.text(kind, job, data)
end

-- The subject of an event without a job: a worker by its id, or nothing.
M.subject = function(id)
  return {id = id, type = '', queue = ''}
end

-- A point in time inside an event's data; Rust writes it as a timestamp.
M.stamp = function(ms)
  return '\29' .. ms .. '\29'
end

return M
