-- Promotes staged jobs to fairgate's own queues: `staging/promote`.

local promote = require('staging/promote')
local target = require('staging/builtin_target')

return function()
  return promote.run(target)
end
