-- What tenants did within the last minute. Changes nothing.
--
-- ARGV[9…] tenants
-- Returns  the deeds of each, as in `did:hH`; nothing where what tenants do is not counted

run = function()
  local found, minute = {}, math.floor(now / MINUTE)
  if not state[14] then return found end
  -- Of the minute in which the last 60 s began, so much is within them.
  local part = 1 - now % MINUTE / MINUTE
  for at = 9, #ARGV do found[at - 8] = sum('m', minute - 1, minute, part, ARGV[at]) end
  return found
end
