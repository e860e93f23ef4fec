-- Remembers between calls what is computed from a key, and from nothing else.

-- Returns a function that computes the value of a key once, for at most `most` keys at a time. Callers share the values, so they
-- must not change them.
local function remembering(most, compute)
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

return {remembering = remembering}
