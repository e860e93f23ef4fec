-- Texts made of several values: stored records, arguments and replies. Only this module,
-- `lib/record` and `lib/event` spell the separators; `src/store/codec/wire.rs` is the counterpart.
-- JSON and names contain no control characters, so nothing is escaped.

local memoize = require('lib/memo').memoize
local concat, find, gmatch, rep, sub = table.concat, string.find, string.gmatch, string.rep, string.sub

local UNIT, RECORD, GROUP, FILE, SUBSTITUTE = '\31', '\30', '\29', '\28', '\26'
local PAIR = '([^\31]+)\31([^\31]*)\31'

-- Joins values into one text.
local function join(first, second, third, ...)
  if third == nil then return first .. '\31' .. second end -- most have two, and need no table
  return concat({first, second, third, ...}, UNIT)
end

-- Joins the values of a list, or those from position `first` to `last`.
local function join_list(list, first, last)
  return concat(list, UNIT, first or 1, last or #list)
end

-- Returns the pattern of a text of `count` values between separators (UNIT by default). The last
-- value may contain the separator.
local function pattern(count, separator)
  separator = separator or UNIT
  return '^' .. rep('([^' .. separator .. ']*)' .. separator, count - 1) .. '(.*)$'
end

-- Iterates over the values of a text and skips empty ones.
local function each(text)
  return gmatch(text, '[^\31]+')
end

-- Iterates over pairs of values, each followed by RS: `first US second RS …`.
local function each_pair(text)
  return gmatch(text, '([^\30\31]*)\31([^\30]*)\30')
end

-- Encodes one further field. Further fields are pairs of name and value: `name US value US …`.
local function field(name, value)
  return name .. '\31' .. value .. '\31'
end

-- Iterates over names and values in their order.
local function each_field(text)
  return gmatch(text, PAIR)
end

-- Finds separators without a pattern, because values may be long.
local function fields_read(text)
  local named, first = {}, 1
  local equals = find(text, UNIT, 1, true)
  while equals do
    local last = find(text, UNIT, equals + 1, true)
    named[sub(text, first, equals - 1)] = sub(text, equals + 1, last - 1)
    first = last + 1
    equals = find(text, UNIT, first, true)
  end
  return named
end

local fields_known = memoize(1000, fields_read)
-- Longer texts are not cached: they contain values that no other job has, such as the template of a
-- payload.
local LONGEST_KNOWN = 200

-- Decodes further fields. Callers share the table and must not change it: most jobs of a tenant
-- have the same further fields, so tables are cached.
local function fields(text)
  return (#text > LONGEST_KNOWN and fields_read or fields_known)(text)
end

-- Returns further fields with one of them changed or added, or removed if `value` is nil.
local function set_field(text, name, value)
  text = '\31' .. text
  local before, behind = find(text, '\31' .. name .. '\31', 1, true)
  if not before then return sub(text, 2) .. (value and field(name, value) or '') end
  local last = find(text, UNIT, behind + 1, true)
  return sub(text, 2, before) .. (value and field(name, value) or '') .. sub(text, last + 1)
end

return {
  RECORD = RECORD, GROUP = GROUP, FILE = FILE, SUBSTITUTE = SUBSTITUTE,
  join = join, join_list = join_list, pattern = pattern, each = each, each_pair = each_pair,
  field = field, each_field = each_field, fields = fields, set_field = set_field,
}
