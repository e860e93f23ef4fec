-- Part: how many jobs tenants have staged, which `tenants` counts among the available ones.

local staged_of

do -- a script has room for 200 locals

local keys

at_begin(function()
  keys = nil
end)

-- The fair queues that have jobs staged.
local function staged_in()
  if keys then return keys end
  keys = {}
  for _, rule in ipairs(call('SMEMBERS', P .. 'plans')) do
    for _, queue in ipairs(call('ZRANGE', P .. 'plan:' .. rule .. ':queues', 0, -1)) do
      keys[#keys + 1] = P .. 'fair:' .. rule .. ':' .. queue
    end
  end
  return keys
end

-- Jobs that a tenant has staged; `*` are all but the default one.
staged_of = function(name)
  local jobs = 0
  for _, key in ipairs(staged_in()) do
    if name == '*' then
      jobs = jobs + (tonumber(call('HGET', key, 'jobs') or nil) or 0) - call('ZCARD', key .. ':lane:_default')
    else
      jobs = jobs + call('ZCARD', key .. ':lane:' .. name)
    end
  end
  return jobs
end

end
