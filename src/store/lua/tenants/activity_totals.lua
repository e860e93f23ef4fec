-- What tenants did, added up over buckets. `tenants/activity` writes those.

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call
local format = string.format

local MINUTE = 60000

-- The deeds of tenants in the buckets of a letter, from the first to the last; the first may count in part. Five numbers each.
local function deeds(letter, names, first, last, part)
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

return {MINUTE = MINUTE, deeds = deeds}
