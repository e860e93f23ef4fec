-- The state of the current call. `lib/runtime` sets every field when a call begins.
--
-- prefix    `fg:{ns}:`, the prefix of every key; the braces put all keys into one cluster slot
-- args      the arguments of the call (`lib/runtime`)
-- settings  the settings among them, as numbers by name
-- call      number of calls since the library was loaded
-- state     the hash `state`; `lib/runtime` lists its fields
-- now       time of the call in ms; `now_text` is the same as text
-- steady    the same time on a clock that is never set back, for durations that must survive a step
--           of the real clock
-- seq       the last sequence number given to a job
-- events    number of events emitted so far
-- log       the events of this call
-- counts    changes of job counts, by queue and state
-- tenant_limits  letters for the kinds of settings that tenants have (`tenants/quotas`)

return {
  prefix = nil, args = nil, settings = nil, call = 0, state = nil, now = nil, now_text = nil, steady = nil, seq = nil, events = nil, log = nil,
  counts = nil, tenant_limits = nil,
}
