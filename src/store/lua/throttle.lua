-- Part: tenants that are throttled because they are noisy neighbours. `punish.lua` writes who is.
--
-- throttled        hash  tenant → `thousandths until concurrency`: what is left of its weight, until when (ms), and how many jobs it may
--                        have active, `-` for as many as ever. Whoever is let go is not in it
-- state.throttled  how many there are: nothing is looked up where there are none

local throttle_weight, throttle_cap

do -- a script has room for 200 locals

local NONE = {}
local LEAST = 50 -- the smallest weight that is served at all
local known

at_begin(function()
  known = {}
end)

local function throttle_of(name)
  if (tonumber(state[13]) or 0) == 0 then return NONE end
  local throttle = known[name]
  if not throttle then
    local part, until_ms, cap = match(call('HGET', P .. 'throttled', name) or '', '^(%d+) (%d+) (%S+)$')
    throttle = part and tonumber(until_ms) > now and {part = tonumber(part), cap = tonumber(cap)} or NONE
    known[name] = throttle
  end
  return throttle
end

-- The weight under which a tenant waits, given what it weighs, and whether that is less because it is throttled.
throttle_weight = function(name, weight)
  local part = throttle_of(name).part
  if not part or part >= 1000 or weight == 0 then return weight, false end
  return math.min(math.max(math.floor(weight * part / 1000 + 0.5), LEAST), weight), true
end

-- How many jobs a tenant may have active, given how many it may otherwise, or false for as many as it likes. Whoever enforces
-- tenants' concurrency asks here.
throttle_cap = function(name, cap)
  local throttled = throttle_of(name).cap
  return throttled and math.min(throttled, cap or throttled) or cap
end

end
