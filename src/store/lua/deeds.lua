-- Part: what tenants did, added up over buckets. `did.lua` writes those.

local MINUTE = 60000

-- Adds up buckets of a field; the first may count in part.
local function sum(letter, first, last, part, name)
  local all = {0, 0, 0, 0, 0}
  for bucket = first, last do
    local text = call('HGET', P .. 'did:' .. letter .. int(bucket), name)
    local place = 0
    for number in string.gmatch(text or '', '%d+') do
      place = place + 1
      all[place] = all[place] + number * (bucket == first and part or 1)
    end
  end
  return format('%d %d %d %d %d', unpack(all))
end
