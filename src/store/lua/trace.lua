-- Looks for staged jobs of a Sidekiq by their jid among all keys, a portion a call. Changes nothing.
--
-- ARGV[9…] cursor, keys to look at, jid
-- Returns  {cursor or '0' at the end, id, created, queue, rule, tenant or '', `push`, …} of jobs whose `push` holds the jid somewhere

run = function()
  local jid, from = ARGV[11], #P + 5 -- behind `job:`
  local scanned = call('SCAN', ARGV[9], 'MATCH', P .. 'job:*', 'COUNT', ARGV[10])
  local answer = {scanned[1]}
  for _, key in ipairs(scanned[2]) do
    local text = call('GET', key)
    local job = text and find(text, jid, 1, true) and job_load(string.sub(key, from), nil, text)
    if job and marked(job, 's') and job.push and find(job.push, jid, 1, true) then
      local at = #answer
      answer[at + 1], answer[at + 2], answer[at + 3] = job.id, job.created, job.queue
      answer[at + 4], answer[at + 5], answer[at + 6] = job.rule, job.tenant or '', job.push
    end
  end
  return answer
end
