-- Sums of tenant activity over time. `commands/activity_add` writes the buckets and describes them.

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call
local format = string.format

local MINUTE = 60000

-- Returns for each tenant the sum of its activity in buckets of a kind (`h` or `m`), five numbers
-- separated by blanks. `part` is the fraction of the first bucket that counts.
local function activity_totals_of(letter, names, first, last, part)
  local sums = {}
  for place = 1, #names do sums[place] = {0, 0, 0, 0, 0} end
  for bucket = first, last do
    local share = bucket == first and part or 1
    for place, text in ipairs(call('HMGET', ctx.prefix .. 'did:' .. letter .. int(bucket), unpack(names))) do
      local at, sum = 0, sums[place]
      for number in string.gmatch(text or '', '%d+') do
        at = at + 1
        sum[at] = sum[at] + number * share
      end
    end
  end
  for place, sum in ipairs(sums) do sums[place] = format('%d %d %d %d %d', unpack(sum)) end
  return sums
end

return {MINUTE = MINUTE, of = activity_totals_of}
