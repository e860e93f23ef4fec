-- Hands out jobs under a lease: see `dispatch/fetch`.

local fetch = require('dispatch/fetch')
local strategy = require('dispatch/policy')

return function()
  return fetch.run(strategy)
end
