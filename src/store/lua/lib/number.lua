-- Formats whole numbers as text, and parses them.
--
-- Numbers are passed to Redis as text made with `%d`. Redis and Lua would format them as floating
-- point, at several times the cost, and most commands carry a time, a score or a sequence. Small
-- numbers, most of them counts, are formatted in advance. Jobs of a call often have the same times
-- and settings, so the last text and the last numbers are kept.

local format = string.format
local SMALL = {}
for number = -16, 128 do SMALL[number] = format('%d', number) end

local last_number, last_text

local function int(number)
  local text = SMALL[number]
  if text then return text end
  if number ~= last_number then last_number, last_text = number, format('%d', number) end
  return last_text
end

local MOST = 128
local numbers, numbers_size = {}, 0

local function parse_new(text)
  local number = tonumber(text)
  if numbers_size == MOST then numbers, numbers_size = {}, 0 end
  numbers[text], numbers_size = number, numbers_size + 1
  return number
end

-- Like `tonumber`, for texts that are likely to occur several times.
local function number_in(text)
  return text and (numbers[text] or parse_new(text))
end

return {int = int, number_in = number_in}
