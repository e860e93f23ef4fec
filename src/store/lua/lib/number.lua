-- Formats whole numbers as text.
--
-- Numbers are passed to Redis as text made with `%d`. Redis and Lua would format them as floating
-- point, at several times the cost, and most commands carry a time, a score or a sequence. Small
-- numbers, most of them counts, are formatted in advance.

local format = string.format
local SMALL = {}
for number = -16, 128 do SMALL[number] = format('%d', number) end

local function int(number)
  return SMALL[number] or format('%d', number)
end

return {int = int}
