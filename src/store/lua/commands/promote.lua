-- Promotes staged jobs into our own queues: see `staging/promote`.

local promote = require('staging/promote')
local target = require('staging/builtin_target')

return function()
  return promote.run(target)
end
