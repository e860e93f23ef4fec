-- Stages what came through an inbox of a main queue: all of it, and once.
--
-- inboxes  hash  inbox → sequence up to which it has been taken in
--
-- ARGV[9…] inbox, sequence up to which it was taken in when its entries were read, sequence after this call, version of the
--          plan rules, main queue, token of the release that takes them in, to hand them back, or '', number of jobs, and each
--          of them as in `enqueue`
-- Returns  as `enqueue` for one request, `taken` if somebody else took the entries in, or `released` if another release of the
--          main queue is under way, or that one no more

local within_bound = over_bound

run = function()
  local name, before, after, version, jobs = ARGV[9], ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[15])
  if (call('HGET', P .. 'release:' .. ARGV[13], 'token') or '') ~= ARGV[14] then return 'released' end
  if (call('HGET', P .. 'inboxes', name) or '0') ~= before then return 'taken' end
  -- Whoever pushed it has been answered: nothing keeps it out. What a tenant is limited to counts it.
  state.bounded, door.is_open = false, true
  -- What is handed back in a moment does not count against the rule's bound.
  over_bound = ARGV[14] == '' and within_bound or function() end
  local result = jobs == 0 and 'ok' or guarded(enqueue, '', 16, jobs, false, version)
  if type(result) == 'table' then result = concat(result, '\31') end
  if string.sub(result, 1, 2) ~= 'ok' then return result end
  call('HSET', P .. 'inboxes', name, after)
  queues_note()
  commit()
  return result
end
