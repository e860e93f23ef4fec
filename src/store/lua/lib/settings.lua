-- The settings in the arguments of a call (`lib/runtime`), in ms.

local ctx = require('lib/context')

local function visibility()
  return tonumber(ctx.args[2])
end

local function retention_of_completed()
  return tonumber(ctx.args[4])
end

local function dead_after()
  return tonumber(ctx.args[8])
end

return {visibility = visibility, retention_of_completed = retention_of_completed, dead_after = dead_after}
