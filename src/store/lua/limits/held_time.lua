-- The time for which limits held jobs back.
--
-- limit:K field  meaning
-- held           `strategy start-end;start-end;…`: the part of the limit that stopped jobs last,
--                and the periods in which lanes waited for the limit or its queue was stopped, the
--                oldest first; the last period has no end while it lasts
--
-- A job was held back as long as these periods overlap with its own wait. At most PERIODS are kept:
-- above that, the two with the shortest gap are merged. So a reported time may include short gaps,
-- but is never too low.

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local per_call = runtime.per_call
local call = redis.call
local match = string.match

local M = {}

local PERIODS = 16
local texts = per_call() -- by limit, as far as this call has read them

-- Caches the field `held` that the caller has read.
M.cache = function(key, text)
  texts()[key] = text or ''
end

local function read(key)
  local text = texts()[key]
  if not text then
    text = call('HGET', ctx.prefix .. 'limit:' .. key, 'held') or ''
    texts()[key] = text
  end
  return text
end

local function write(key, text)
  texts()[key] = text
  call('HSET', ctx.prefix .. 'limit:' .. key, 'held', text)
end

local function shorten(periods)
  local _, number = string.gsub(periods, ';', '')
  if number <= PERIODS then return periods end
  local shortest, from, to
  for at, finish, start, behind in string.gmatch(periods, '%-()(%d+);(%d+)()') do
    local gap = start - finish
    if not shortest or gap < shortest then shortest, from, to = gap, at, behind end
  end
  return string.sub(periods, 1, from - 1) .. string.sub(periods, to + 1)
end

-- Begins a period in which a limit holds jobs back. If one is under way, only updates the strategy.
M.begin = function(key, strategy)
  local before, periods = match(read(key), '^(%S*) ?(.*)$')
  if string.sub(periods, -2) == '-;' then
    if before ~= strategy then write(key, strategy .. ' ' .. periods) end
    return
  end
  local earlier = match(periods, '^(.*%-)' .. ctx.now_text .. ';$')
  -- If the last period ended in this millisecond, it continues.
  write(key, strategy .. ' ' .. (earlier and earlier .. ';' or shorten(periods .. ctx.now_text .. '-;')))
end

-- Ends the current period of a limit, if there is one.
M.finish = function(key)
  local text = read(key)
  if string.sub(text, -2) == '-;' then write(key, string.sub(text, 1, -2) .. ctx.now_text .. ';') end
end

-- Returns for how many ms a limit held back a job that has been waiting since `since`, and the
-- strategy; nil if it did not hold it back. The caller must have opened the limit.
M.time = function(key, since)
  local text = texts()[key]
  if text == '' then return nil end
  local sum, strategy = 0, match(text, '^%S+')
  for start, finish in string.gmatch(text, '(%d+)%-(%d*);') do
    sum = sum + math.max((tonumber(finish) or ctx.now) - math.max(tonumber(start), since), 0)
  end
  if sum > 0 then return sum, strategy end
end

return M
