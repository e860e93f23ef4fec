-- Reports queues that have something ready but from which no worker takes, once until one does.
--
-- key      type  meaning
-- starved  zset  reported queues, by the time since which nothing was taken

local ctx = require('lib/context')
local lane = require('queue/lane')
local park = require('limits/park')
local runtime = require('lib/runtime')

local emit, int, subject = runtime.emit, runtime.int, runtime.subject
local is_paused, queue_depth = lane.is_paused, lane.queue_depth
local report_metric = park.report_metric
local call = redis.call
local find, format, match = string.find, string.format, string.match

-- Maximum number of starved queues that one call examines: clients can make up any number of names.
local MAX_STARVED = 1000

-- Reports queues that starve, and forgets those that were served since.
local function report_starved()
  if not find(ctx.state.policy, 's', 1, true) then return end
  local first, shortest = call('ZRANGE', lane.LIVE, 0, 0, 'WITHSCORES'), tonumber(call('HGET', ctx.prefix .. 'policy', 'patience') or nil)
  local starves = first[2] and shortest and ctx.now - tonumber(first[2]) > shortest
  if not starves and call('EXISTS', ctx.prefix .. 'starved') == 0 then return end
  local patience = {}
  local default = tonumber(match(call('HGET', ctx.prefix .. 'policy', 'sp') or '', '^(%d+)'))
  for _, name in ipairs(call('SMEMBERS', ctx.prefix .. 'pools')) do
    local pool = call('HMGET', ctx.prefix .. 'pool:' .. name, 'queues', 'sp')
    local own = tonumber(match(pool[2] or '', '^(%d+)')) or (pool[2] or '') == '' and default or nil
    for queue in string.gmatch(pool[1] or '', '%S+') do
      if own and (not patience[queue] or own < patience[queue]) then patience[queue] = own end
      if pool[2] == 'off' and not patience[queue] then patience[queue] = false end
    end
  end
  -- Queues that were already reported come first.
  local most = math.min(call('ZCARD', ctx.prefix .. 'starved'), MAX_STARVED) + 63
  local idle = call('ZRANGE', lane.LIVE, 0, most, 'WITHSCORES')
  for position = 1, #idle, 2 do
    local queue, since = idle[position], tonumber(idle[position + 1])
    local longest = patience[queue]
    if longest == nil then longest = default end
    if longest and ctx.now - since > longest and not is_paused(queue) and call('ZADD', ctx.prefix .. 'starved', 'NX', int(since), queue) == 1 then
      report_metric('starved', queue, '', ctx.now - since)
      emit('scheduling.queue_starved', subject(''), '"queue":"' .. queue .. '","duration":"PT' .. format('%.3f', (ctx.now - since) / 1000)
        .. 'S","available_count":' .. int(queue_depth(queue)))
    end
  end
  -- Forgets queues that were served since, or are empty or paused.
  local reported = call('ZRANGE', ctx.prefix .. 'starved', 0, most, 'WITHSCORES')
  for position = 1, #reported, 2 do
    local since = tonumber(call('ZSCORE', lane.LIVE, reported[position]) or nil)
    if not since or since > tonumber(reported[position + 1]) or is_paused(reported[position]) then call('ZREM', ctx.prefix .. 'starved', reported[position]) end
  end
end

return {report_starved = report_starved}
