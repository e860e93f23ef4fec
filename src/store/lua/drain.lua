-- Stages what came through an inbox of a main queue: all of it, and once.
--
-- inboxes  hash  inbox → sequence up to which it has been taken in
--
-- ARGV[9…] inbox, sequence up to which it was taken in when its entries were read, sequence after this call, version of the
--          plan rules, number of jobs, and each of them as in `enqueue`
-- Returns  as `enqueue` for one request, or `taken` if somebody else took the entries in

run = function()
  local name, before, after, version, jobs = ARGV[9], ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13])
  if (call('HGET', P .. 'inboxes', name) or '0') ~= before then return 'taken' end
  -- Whoever pushed it has been answered: nothing keeps it out. What a tenant is limited to counts it.
  state.bounded, door.is_open = false, true
  local result = jobs == 0 and 'ok' or guarded(enqueue, '', 14, jobs, false, version)
  if type(result) == 'table' then result = concat(result, '\31') end
  if string.sub(result, 1, 2) ~= 'ok' then return result end
  call('HSET', P .. 'inboxes', name, after)
  queues_note()
  commit()
  return result
end
