-- A plan rule as it is now. Changes nothing.
--
-- ARGV[9…] rule, a queue to look at even if nothing is staged for it, or ''
-- Returns  {now, {field, value, …} of plan:R, holder or '', token, ms left of the lock, {what `observe` says of a queue}, …}

run = function()
  local key = P .. 'plan:' .. ARGV[9]
  local lock = call('HMGET', key .. ':lock', 'holder', 'token')
  local answer = {now_text, call('HGETALL', key), lock[1] or '', lock[2] or '', call('PTTL', key .. ':lock')}
  local seen = {}
  for _, queue in ipairs(plan_queues(ARGV[9])) do
    answer[#answer + 1] = observe(ARGV[9], queue)
    seen[queue] = true
  end
  if ARGV[10] ~= '' and not seen[ARGV[10]] then answer[#answer + 1] = observe(ARGV[9], ARGV[10]) end
  return answer
end
