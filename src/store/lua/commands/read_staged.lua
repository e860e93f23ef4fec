-- Reads what is needed to hand staged jobs back to a Sidekiq. Read-only.
--
-- ARGV[9…]  ids
--
-- Returns  for each id {time in ms at which the job was staged, its tenant in the gem
--          sidekiq-fairplay or '', template of its payload, args}, or {} if it is no longer staged

local ctx = require('lib/context')
local job_module = require('queue/job')
local record = require('lib/record')

local job_load, marked = job_module.load, job_module.marked
local call = redis.call
local match = string.match

local function run()
  local answer = {}
  for at = 9, #ctx.args do
    local id, words = ctx.args[at], {}
    local job = job_load(id)
    local first, length, template = match(job and marked(job, 's') and job.push or '', '^d,(%d+),(%d+),(.*)$')
    if first then
      local envelope = job.apart and call('GET', ctx.prefix .. 'env:' .. id) or string.sub(job.text, record.envelope_at(job.text))
      words = {job.created, job.fairplay or '', template, string.sub(envelope, first, first + length - 1)}
    end
    answer[at - 8] = words
  end
  return answer
end

return run
