-- Lists staged jobs of tenants and the source of each. Read-only.
--
-- Takes
--   rule     string  rule
--   queue    string  main queue
--   most     number  most jobs
--   after    {priority: number, score: string}?  job after which the first tenant's are listed
--   tenants  list of string
--
-- Returns
--   complete  number  tenants of which all jobs are listed
--   last      {priority: number, score: string}?  the last job listed of the next tenant
--   jobs      list of
--     id         string
--     sequence   number
--     bytes      number
--     came_from  `staging_queue` of a Sidekiq, {fairplay: {class: string}} for the keys of the gem
--                sidekiq-fairplay, or `elsewhere`

local ctx = require('lib/context')
local packed = require('lib/packed')
local lane = require('queue/lane')
local fair_queues = require('staging/fair_queues')
local stage = require('staging/stage')
local record = require('lib/record')
local runtime = require('lib/runtime')

local int = runtime.int
local LEVEL = lane.LEVEL
local staging, staging_open = fair_queues.staging, fair_queues.open
local staging_lane = stage.staging_lane
local call = redis.call
local match = string.match

local function run()
  local args = packed.read()
  local room, after = args.most, args.after
  local levels = staging.levels(staging_open(args.rule, args.queue))
  local jobs = {}

  -- Returns the source of a job, given its further fields.
  local function source_of(fields)
    local template = match(fields.push or '', '^d,%d+,%d+,(.*)$')
    if not template then return 'elsewhere' end
    if not fields.fairplay then return 'staging_queue' end
    return {fairplay = {class = match(template, '^{"class":"([^"]*)"') or ''}}
  end

  local function add_all(found)
    local keys = {}
    for place = 1, #found, 2 do keys[#keys + 1] = ctx.prefix .. 'job:' .. found[place] end
    for place, text in ipairs(#keys > 0 and call('MGET', unpack(keys)) or {}) do
      local id, score = found[place * 2 - 1], tonumber(found[place * 2])
      if text then
        local _, _, _, fields = record.fixed(text)
        local bytes = #text + (fields.apart and call('STRLEN', ctx.prefix .. 'env:' .. id) or 0)
        jobs[#jobs + 1] = {id = id, sequence = score % LEVEL, bytes = bytes, came_from = source_of(fields)}
      end
    end
  end

  for place, tenant in ipairs(args.tenants) do
    for _, fair in ipairs(levels) do
      if not after or fair.priority == after.priority then
        local found = call('ZRANGEBYSCORE', staging_lane(fair, tenant), after and '(' .. after.score or '-inf', '+inf', 'WITHSCORES',
          'LIMIT', '0', int(room))
        add_all(found)
        room, after = room - #found / 2, nil
        if room == 0 then
          return packed.write({complete = place - 1, last = {priority = fair.priority, score = found[#found]}, jobs = jobs})
        end
      end
    end
    after = nil
  end
  return packed.write({complete = #args.tenants, jobs = jobs})
end

return run
