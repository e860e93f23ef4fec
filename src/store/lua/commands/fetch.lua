-- Hands out jobs under a lease: see `dispatch/fetch`.

local fetch = require('dispatch/fetch')
local strategy = require('dispatch/simple')

return function()
  return fetch.run(strategy)
end
