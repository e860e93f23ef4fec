-- The call under way. `lib/runtime` sets every field when a call begins.
--
-- prefix    `fg:{ns}:`, with which every key begins, so that all of them lie in one cluster slot
-- args      the arguments: see `lib/runtime`
-- call      the number of the call since the library was loaded
-- state     the hash `state`, whose fields are listed there
-- now       the time of the call in ms, and `now_text`, the same as text
-- steady    the same on a clock that is never set back: durations that span a step of the real clock are kept in this time
-- seq       the last sequence number that was given to a job
-- events    how many events there have been
-- log       the events of this call
-- counts    changes of job counts by queue and state
-- allowed   what tenants are limited in, as letters: see `tenants/quotas`

return {
  prefix = nil, args = nil, call = 0, state = nil, now = nil, now_text = nil, steady = nil, seq = nil, events = nil, log = nil,
  counts = nil, allowed = nil,
}
