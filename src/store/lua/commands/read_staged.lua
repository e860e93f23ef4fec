-- Reads what is needed to hand staged jobs back to a Sidekiq. Read-only.
--
-- Takes
--   ids  list of string
--
-- Returns  map of id to {created: number, tenant: string, template: string, args: string}: time at
--          which the job was staged, its tenant in the gem sidekiq-fairplay or '', template of its
--          payload, and arguments; jobs that are no longer staged are left out

local ctx = require('lib/context')
local packed = require('lib/packed')
local job_module = require('queue/job')

local job_load, marked = job_module.load, job_module.marked
local call = redis.call
local match = string.match

local function run()
  local jobs = {}
  for _, id in ipairs(packed.read().ids) do
    local job = job_load(id)
    local first, length, template = match(job and marked(job, 's') and job.push or '', '^d,(%d+),(%d+),(.*)$')
    if first then
      local envelope = job.apart and call('GET', ctx.prefix .. 'env:' .. id) or string.sub(job.text, job.envelope)
      jobs[id] = {created = tonumber(job.created), tenant = job.fairplay or '', template = template,
        args = string.sub(envelope, first, first + length - 1)}
    end
  end
  return packed.write(jobs)
end

return run
