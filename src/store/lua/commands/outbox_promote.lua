-- Promotes staged jobs into a main queue that is not ours: see `staging/promote`.

local promote = require('staging/promote')
local target = require('staging/outbox_target')

return function()
  return promote.run(target)
end
