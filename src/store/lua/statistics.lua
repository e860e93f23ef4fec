-- What a tenant did. Changes nothing.
--
-- ARGV[9…] tenant, minutes of the window
-- Returns  {its deeds of the last 24 hours, of the window, those of all tenants in the window, ms
--          since the window began, 1 if deeds are counted}, where deeds are five numbers as in `did:hH`

local HOURS, HOUR, MINUTE = 24, 3600000, 60000

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

run = function()
  local tenant, minutes = ARGV[9], tonumber(ARGV[10])
  local hour, minute = math.floor(now / HOUR), math.floor(now / MINUTE)
  -- Of the hour in which the 24 hours began, so much is within them.
  local part = 1 - now % HOUR / HOUR
  local first = minute - minutes + 1
  return {sum('h', hour - HOURS, hour, part, tenant),
    sum('m', first, minute, 1, tenant), sum('m', first, minute, 1, '*'), int(now - first * MINUTE),
    state[14] and '1' or '0'}
end
