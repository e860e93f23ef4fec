-- Events of a call: records of fields, stored as text. Only Rust turns them into JSON. Each call
-- writes one stream entry.
--
-- An event is `kind US job id US type US queue US trace FS tenant US data`. FS and the tenant are
-- missing if the job names no tenant. The activity of tenants may follow as the last record
-- (`tenants/activity`). `src/store/codec/event.rs` reads the same format.

local ctx = require('lib/context')

local M = {SEPARATOR = '\30'}

-- Returns the text of an event about a job or a subject.
local function event_text(kind, job, data)
  return kind .. '\31' .. job.id .. '\31' .. job.type .. '\31' .. job.queue .. '\31'
    .. (job.trace or '') .. (job.tenant and '\28' .. job.tenant or '') .. '\31' .. (data or '')
end

M.emit = function(kind, job, data)
  local log = ctx.log
  log[#log + 1] = event_text(kind, job, data)
end

M.text = event_text

-- Returns the subject of an event that is not about a job: a worker by its id, or an empty subject.
M.subject = function(id)
  return {id = id, type = '', queue = ''}
end

-- Encodes a time inside an event's data; Rust replaces it with a timestamp.
M.stamp = function(ms)
  return '\29' .. ms .. '\29'
end

return M
