-- Whole numbers as text.
--
-- Numbers are passed on as text made with `%d`: Redis and Lua would each print them as floating point, at several times
-- the cost, and most commands carry a time, a score or a sequence. Small ones, most of which count something, are at hand.

local format = string.format
local SMALL = {}
for number = -16, 128 do SMALL[number] = format('%d', number) end

local function int(number)
  return SMALL[number] or format('%d', number)
end

return {int = int}
