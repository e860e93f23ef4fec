-- Reads crons. Read-only.
--
-- Takes one of
--   one   {name: string}
--   due   {most: number}            those that are due
--   page  {offset: number, limit: number, enabled: boolean?}  in the order of names
--
-- Returns
--   now       number
--   first     number?  the earliest next time of all crons
--   total     number   crons that match, on all pages
--   outdated  string?  `state.shift` if next times are older than the last clock step
--   crons     list of {name: string, document: string, version: string, created: number, next:
--             number?, last: number?, runs: number}

local ctx = require('lib/context')
local packed = require('lib/packed')

local call = redis.call

-- Returns the next time of a cron; nil while it is disabled.
local function time(score)
  local at = tonumber(score)
  if at and at < math.huge then return at end
end

local function run()
  local args = packed.read()
  local CRONS = ctx.prefix .. 'crons'
  local crons, total = {}, 0

  local function add(name, score)
    local document, version, created, last, runs =
      unpack(call('HMGET', ctx.prefix .. 'cron:' .. name, 'doc', 'version', 'created', 'last', 'runs'))
    crons[#crons + 1] = {name = name, document = document or nil, version = version or nil, created = tonumber(created),
      next = time(score), last = tonumber(last), runs = tonumber(runs or 0)}
  end

  local function page(offset, limit, enabled)
    local entries, names, scores = call('ZRANGE', CRONS, 0, -1, 'WITHSCORES'), {}, {}
    for at = 1, #entries, 2 do
      local is_enabled = time(entries[at + 1]) ~= nil
      if enabled == nil or enabled == is_enabled then
        names[#names + 1] = entries[at]
        scores[entries[at]] = entries[at + 1]
      end
    end
    table.sort(names)
    total = #names
    for at = offset + 1, math.min(offset + limit, total) do add(names[at], scores[names[at]]) end
  end

  if args.one then
    local name = args.one.name
    local score = call('ZSCORE', CRONS, name)
    if score then add(name, score) end
  elseif args.due then
    local due = call('ZRANGEBYSCORE', CRONS, '-inf', ctx.now_text, 'WITHSCORES', 'LIMIT', 0, args.due.most)
    for at = 1, #due, 2 do add(due[at], due[at + 1]) end
  else
    page(args.page.offset, args.page.limit, args.page.enabled)
  end
  local shift = ctx.state.shift
  return packed.write({now = ctx.now, first = time(call('ZRANGE', CRONS, 0, 0, 'WITHSCORES')[2]), total = total,
    outdated = shift ~= ctx.state.cron_shift and shift or nil, crons = crons})
end

return run
