-- Searches all keys for staged jobs of a Sidekiq by their jid, a portion per call. Read-only.
--
-- Takes
--   cursor  string  cursor of SCAN
--   keys    number  keys to scan
--   jid     string
--
-- Returns
--   cursor  string  next cursor, or '0' at the end
--   jobs    list of {id: string, created: number, queue: string, rule: string, tenant: string?, push:
--           string}  those whose `push` contains the jid

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')

local job_load, marked = job_module.load, job_module.marked
local call = redis.call
local find = string.find

local function run()
  local args = packed.read()
  local jid = args.jid
  local from = #ctx.prefix + 5 -- after `job:`
  local scanned = call('SCAN', args.cursor, 'MATCH', ctx.prefix .. 'job:*', 'COUNT', args.keys)
  local jobs = {}
  for _, key in ipairs(scanned[2]) do
    local text = call('GET', key)
    local job = text and find(text, jid, 1, true) and job_load(string.sub(key, from), nil, text)
    if job and marked(job, 's') and job.push and find(job.push, jid, 1, true) then
      jobs[#jobs + 1] = {id = job.id, created = tonumber(job.created), queue = job.queue, rule = job.rule, tenant = job.tenant,
        push = job.push}
    end
  end
  return packed.write({cursor = scanned[1], jobs = jobs})
end

return run
