-- Takes what has been delivered out of the outbox of a rule, or of a source of jobs that are handed back.
--
-- ARGV[9…] rule or source, sequence up to which all is delivered
-- Returns  how many entries are left

run = function()
  local outbox = P .. 'outbox:' .. ARGV[9]
  while true do
    local head = call('LINDEX', outbox, 0)
    if not head or tonumber(match(head, '^[^\31]*\31(%d+)\31')) > tonumber(ARGV[10]) then break end
    call('LPOP', outbox)
  end
  return call('LLEN', outbox)
end
