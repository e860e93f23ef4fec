-- Searches all keys for staged jobs of a Sidekiq by their jid, a portion per call. Read-only.
--
-- ARGV[9…]
--   cursor  cursor of SCAN
--   keys    number of keys to scan
--   jid     jid
--
-- Returns  {next cursor, or '0' at the end, id, created, queue, rule, tenant or '', `push`, …} of
--          jobs whose `push` contains the jid

local ctx = require('lib/context')
local job_module = require('queue/job')

local job_load, marked = job_module.load, job_module.marked
local call = redis.call
local find = string.find

local function run()
  local cursor, keys, jid = unpack(ctx.args, 9, 11)
  local from = #ctx.prefix + 5 -- after `job:`
  local scanned = call('SCAN', cursor, 'MATCH', ctx.prefix .. 'job:*', 'COUNT', keys)
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

return run
