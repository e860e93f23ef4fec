-- Returns the jobs of tenants that have not ended. Read-only.
--
-- ARGV[9…]  tenants; `*` is the sum of all but the default one
--
-- Returns  {value in `tenants` or '', staged jobs, …}

local ctx = require('lib/context')
local headcount = require('tenants/headcount')

local staged_of = headcount.staged_of
local call = redis.call

local function run()
  local answer = {}
  for at = 9, #ctx.args do
    local name = ctx.args[at]
    answer[#answer + 1] = call('HGET', ctx.prefix .. 'tenants', name) or ''
    answer[#answer + 1] = staged_of(name)
  end
  return answer
end

return run
