-- What a tenant did. Changes nothing.
--
-- ARGV[9…] tenant, minutes of the window
-- Returns  {its deeds of the last 24 hours, of the window, those of all tenants in the window, ms
--          since the window began, 1 if deeds are counted}, where deeds are five numbers as in `did:hH`

local HOURS, HOUR = 24, 3600000

run = function()
  local tenant, minutes = ARGV[9], tonumber(ARGV[10])
  local hour, minute = math.floor(now / HOUR), math.floor(now / MINUTE)
  -- Of the hour in which the 24 hours began, so much is within them.
  local part = 1 - now % HOUR / HOUR
  local first = minute - minutes + 1
  local lately = deeds('m', {tenant, '*'}, first, minute)
  return {deeds('h', {tenant}, hour - HOURS, hour, part)[1], lately[1], lately[2], int(now - first * MINUTE),
    state.throttled and '1' or '0'}
end
