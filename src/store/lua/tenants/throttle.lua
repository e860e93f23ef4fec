-- Tenants that are throttled because they are noisy neighbours. `commands/apply_throttles` writes who is.
--
-- throttled        hash  tenant → `thousandths until concurrency`: what is left of its weight, until when (ms), and how many jobs it may
--                        have active, `-` for as many as ever. Whoever is let go is not in it
-- state.throttled  how many there are: nothing is looked up where there are none. It is there while what tenants do is counted

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local per_call = runtime.per_call
local call = redis.call
local match = string.match

local NONE = {}
local known = per_call()

-- What is left to a tenant: `part`, of its weight in thousandths, and `cap`, how many jobs it may have active; missing where that is all.
local function throttle_of(name)
  if not ctx.state.throttled or ctx.state.throttled == '0' then return NONE end
  local throttle = known()[name]
  if not throttle then
    local part, until_ms, cap = match(call('HGET', ctx.prefix .. 'throttled', name) or '', '^(%d+) (%d+) (%S+)$')
    throttle = part and tonumber(until_ms) > ctx.now and {part = part ~= '1000' and tonumber(part) or nil, cap = tonumber(cap)} or NONE
    known()[name] = throttle
  end
  return throttle
end

return {of = throttle_of}
