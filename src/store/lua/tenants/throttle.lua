-- Throttles of noisy neighbours. `commands/apply_throttles` writes them.
--
-- throttled        hash  tenant → `thousandths until concurrency`: remaining part of its weight,
--                        end in ms, limit on active jobs or `-`
-- state.throttled        number of throttled tenants; present while activity is counted. If it is
--                        0, nothing is looked up

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local per_call = runtime.per_call
local call = redis.call
local match = string.match

local NONE = {}
local known = per_call()

-- Returns the throttle of a tenant: `part`, the remaining part of its weight in thousandths, and
-- `concurrency`, its limit on active jobs. A field is missing if it does not apply.
local function throttle_of(name)
  if not ctx.state.throttled or ctx.state.throttled == '0' then return NONE end
  local throttle = known()[name]
  if not throttle then
    local part, until_ms, concurrency = match(call('HGET', ctx.prefix .. 'throttled', name) or '', '^(%d+) (%d+) (%S+)$')
    throttle = part and tonumber(until_ms) > ctx.now and {part = part ~= '1000' and tonumber(part) or nil, concurrency = tonumber(concurrency)} or NONE
    known()[name] = throttle
  end
  return throttle
end

return {of = throttle_of}
