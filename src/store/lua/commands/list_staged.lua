-- Lists staged jobs of tenants and the source of each. Read-only.
--
-- ARGV[9…]
--   rule, queue      rule and main queue
--   most             most jobs
--   priority, after  priority and score after which the first tenant's jobs are listed; both '' at
--                    first
--   …                tenants
--
-- Returns  {number of tenants that are complete, priority and score of the last job listed of the
--          next one, `id US sequence US bytes US source`, …}
--
-- A source is `q` for a staging queue of a Sidekiq, `f` and a class for the keys of the gem
-- sidekiq-fairplay, `o` for anything else.

local ctx = require('lib/context')
local lane = require('queue/lane')
local fair_queues = require('staging/fair_queues')
local stage = require('staging/stage')
local record = require('lib/record')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local int = runtime.int
local LEVEL = lane.LEVEL
local staging, staging_open = fair_queues.staging, fair_queues.open
local staging_lane = stage.staging_lane
local call = redis.call
local match = string.match

local function run()
  local rule, queue, most, first_priority, after = unpack(ctx.args, 9, 13)
  local room, priority = tonumber(most), tonumber(first_priority)
  local levels = staging.levels(staging_open(rule, queue))
  local answer = {0, '', ''}

  -- Returns the source of a job, given its further fields.
  local function source_of(fields)
    local template = match(fields.push or '', '^d,%d+,%d+,(.*)$')
    if not template then return 'o' end
    if not fields.fairplay then return 'q' end
    return 'f' .. (match(template, '^{"class":"([^"]*)"') or '')
  end

  local function add_all(found)
    local keys = {}
    for place = 1, #found, 2 do keys[#keys + 1] = ctx.prefix .. 'job:' .. found[place] end
    for place, text in ipairs(#keys > 0 and call('MGET', unpack(keys)) or {}) do
      local id, score = found[place * 2 - 1], tonumber(found[place * 2])
      if text then
        local _, _, _, fields = record.fixed(text)
        local bytes = #text + (fields.apart and call('STRLEN', ctx.prefix .. 'env:' .. id) or 0)
        answer[#answer + 1] = wire.join(id, int(score % LEVEL), int(bytes), source_of(fields))
      end
    end
  end

  for at = 14, #ctx.args do
    for _, fair in ipairs(levels) do
      if not priority or fair.priority == priority then
        local found = call('ZRANGEBYSCORE', staging_lane(fair, ctx.args[at]), priority and '(' .. after or '-inf', '+inf', 'WITHSCORES',
          'LIMIT', '0', int(room))
        add_all(found)
        room, priority = room - #found / 2, nil
        if room == 0 then
          answer[2], answer[3] = int(fair.priority), found[#found]
          return answer
        end
      end
    end
    answer[1], priority = at - 13, nil
  end
  return answer
end

return run
