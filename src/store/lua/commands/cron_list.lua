-- Reads crons. Read-only.
--
-- ARGV[9…]
--   kind  `one`, `due` or `page`
--   …     `one`: name; `due`: most crons; `page`: offset, limit, and `on`, `off` or '' for all
--
-- Returns  {now, earliest next time of all crons or '', number of matches of a page, `state.shift`
--          if next times are older than the last clock step or '', name, next time, fields of its
--          hash, …}

local ctx = require('lib/context')

local call = redis.call

local function run()
  local kind, first, second, third = unpack(ctx.args, 9, 12)
  local CRONS = ctx.prefix .. 'crons'
  local found, total = {}, 0

  local function add(name, score)
    local fields = call('HMGET', ctx.prefix .. 'cron:' .. name, 'doc', 'version', 'created', 'last', 'runs', 'job')
    for index = 1, 6 do fields[index] = fields[index] or '' end
    found[#found + 1], found[#found + 2] = name, score
    found[#found + 1] = fields
  end

  -- Adds one page, in the order of names.
  local function page(offset, limit, which)
    local entries, names, scores = call('ZRANGE', CRONS, 0, -1, 'WITHSCORES'), {}, {}
    for at = 1, #entries, 2 do
      local is_off = tonumber(entries[at + 1]) == math.huge
      if which == '' or (which == 'off') == is_off then
        names[#names + 1] = entries[at]
        scores[entries[at]] = entries[at + 1]
      end
    end
    table.sort(names)
    total = #names
    for at = offset + 1, math.min(offset + limit, total) do add(names[at], scores[names[at]]) end
  end

  if kind == 'one' then
    local name = first
    local score = call('ZSCORE', CRONS, name)
    if score then add(name, score) end
  elseif kind == 'due' then
    local due = call('ZRANGEBYSCORE', CRONS, '-inf', ctx.now_text, 'WITHSCORES', 'LIMIT', 0, first)
    for at = 1, #due, 2 do add(due[at], due[at + 1]) end
  else
    page(tonumber(first), tonumber(second), third)
  end
  local earliest = call('ZRANGE', CRONS, 0, 0, 'WITHSCORES')[2]
  local shift = ctx.state.shift ~= ctx.state.cron_shift and ctx.state.shift or ''
  return {ctx.now_text, earliest or '', total, shift, unpack(found)}
end

return run
