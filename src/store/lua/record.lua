-- Ends a round: records it, and says when the planner wants to be woken.
--
-- plan:R:rounds  stream  one entry a round: its number and a document, which only Rust reads
--
-- ARGV[9…] rule, token of the lock or '' where the round had none, round, document, promoted, 1 if skipped, rounds to keep,
--          then for each queue: queue, low-water mark, aimed depth, ms for which that holds
-- Returns  1, or 0 if the lock is another's: then the round is recorded, and nothing else; of a rule that is gone not even that

run = function()
  local rule, token = ARGV[9], ARGV[10]
  local key = P .. 'plan:' .. rule
  local lock = key .. ':lock'
  if call('HEXISTS', key, 'state') == 0 then return 0 end
  local recorded = call('HGET', key, 'recorded')
  if recorded == ARGV[11] then return 1 end -- sent again
  if (tonumber(recorded or nil) or 0) < tonumber(ARGV[11]) then call('HSET', key, 'recorded', ARGV[11]) end
  call('XADD', key .. ':rounds', 'MAXLEN', '~', ARGV[15], '*', 'n', ARGV[11], 'd', ARGV[12])
  call('HINCRBY', key, 'promoted', ARGV[13])
  if ARGV[14] == '1' then call('HINCRBY', key, 'skipped', 1) end
  signal('round ' .. rule)
  local ours = call('HGET', lock, 'token') == token
  if ours then
    for at = 16, #ARGV, 4 do
      local queue = ARGV[at]
      local fair = staging_open(rule, queue)
      call('HSET', fair.key, 'aim', ARGV[at + 2], 'aimed', int(now + tonumber(ARGV[at + 3])))
      if fair.jobs == 0 then call('PEXPIRE', fair.key, IDLE_MS) end
      -- One that does not want to be woken leaves the mark to other rules of that queue.
      local waiting, unknown = staging.waiting(fair)
      if ARGV[at + 1] ~= '0' and waiting + unknown > 0 then
        call('HSET', P .. 'low', 'm ' .. queue, ARGV[at + 1])
      end
    end
    -- Idle rules hold no lock, so that another process finds it free when jobs come there.
    if call('EXISTS', key .. ':queues') == 0 then call('UNLINK', lock) else call('HSET', lock, 'busy', '0') end
  end
  commit()
  return ours and 1 or 0
end
