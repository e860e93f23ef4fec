-- Stores new jobs. Each request is all or nothing; requests of one call are independent.
--
-- ARGV[9…] requests, then for each: op ('' where the server made the ids: then an id is proof enough), jobs,
--          1 if ids may exist already (sent by the client, or this is a resend), version of the plan rules it was read under;
--          for each job: id, queue, type, lane, priority, further fields as `name US value US …`, envelope. Among the further
--          fields are `pending`, and times `due`, `expires`, `ttl`, `total` in ms, or as '+ms' from now.
--          A planned job has `rule`, as the first of them, and `tenant`.
-- Returns  for each request `ok US created US state US due US state US due …`, `duplicate US index US id`, `stale` if other
--          rules hold now, `full US rule US most US staged` or `error US text`

local answers, at = {}, 10
for request = 1, tonumber(ARGV[9]) do
  local jobs = tonumber(ARGV[at + 1])
  local result = guarded(enqueue, ARGV[at], at + 4, jobs, ARGV[at + 2] == '1', ARGV[at + 3])
  answers[request] = type(result) == 'table' and concat(result, '\31') or result
  at = at + 4 + jobs * WORDS
end
settle()
for queue in pairs(counts) do call('HSETNX', P .. 'queues', queue, now_text) end
commit()
return answers
