-- Sums of tenant activity over time. `commands/activity_add` writes the buckets and describes them.

local ctx = require('lib/context')
local runtime = require('lib/runtime')

local int = runtime.int
local call = redis.call

local MINUTE = 60000

local FIELDS = {'enqueued', 'pushes', 'completed', 'failed', 'worker_ms'}

-- Returns for each tenant the sum of its activity in buckets of a kind (`h` or `m`): {enqueued,
-- pushes, completed, failed, worker_ms}, all of them numbers. `part` is the fraction of the first
-- bucket that counts.
local function activity_totals_of(letter, names, first, last, part)
  local totals = {}
  for place = 1, #names do totals[place] = {enqueued = 0, pushes = 0, completed = 0, failed = 0, worker_ms = 0} end
  for bucket = first, last do
    local share = bucket == first and part or 1
    for place, text in ipairs(call('HMGET', ctx.prefix .. 'activity:' .. letter .. int(bucket), unpack(names))) do
      local at, total = 0, totals[place]
      for number in string.gmatch(text or '', '%d+') do
        at = at + 1
        local field = FIELDS[at]
        total[field] = total[field] + number * share
      end
    end
  end
  for _, total in ipairs(totals) do
    for _, field in ipairs(FIELDS) do total[field] = math.floor(total[field]) end
  end
  return totals
end

return {MINUTE = MINUTE, of = activity_totals_of}
