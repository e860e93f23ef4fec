-- Promotes staged jobs to a main queue in another system: `staging/promote`.

local promote = require('staging/promote')
local target = require('staging/outbox_target')

return function()
  return promote.run(target)
end
