-- Part: tenants that are throttled because they are noisy neighbours. `punish.lua` writes who is.
--
-- throttled        hash  tenant → `thousandths until concurrency`: what is left of its weight, until when (ms), and how many jobs it may
--                        have active, `-` for as many as ever. Whoever is let go is not in it
-- state.throttled  how many there are: nothing is looked up where there are none. It is there while what tenants do is counted

local throttle_of

do -- a script has room for 200 locals

local NONE = {}
local known

at_begin(function()
  known = {}
end)

-- What is left to a tenant: `part`, of its weight in thousandths, and `cap`, how many jobs it may have active; missing where that is all.
throttle_of = function(name)
  if not state.throttled or state.throttled == '0' then return NONE end
  local throttle = known[name]
  if not throttle then
    local part, until_ms, cap = match(call('HGET', P .. 'throttled', name) or '', '^(%d+) (%d+) (%S+)$')
    throttle = part and tonumber(until_ms) > now and {part = part ~= '1000' and tonumber(part) or nil, cap = tonumber(cap)} or NONE
    known[name] = throttle
  end
  return throttle
end

end
