-- Caches values across calls. A value may depend on nothing but its key.

-- Returns a function that computes the value of a key once and caches up to `most` values; a full
-- cache is emptied. Callers share the values and must not change them.
local function memoize(most, compute)
  local known, size = {}, 0
  return function(key, first, second)
    local value = known[key]
    if value == nil then
      value = compute(key, first, second)
      if size == most then known, size = {}, 0 end
      known[key], size = value, size + 1
    end
    return value
  end
end

return {memoize = memoize}
