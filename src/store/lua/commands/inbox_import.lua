-- Stages what came through an inbox of a main queue: all of it, and once.
--
-- inboxes  hash  inbox → sequence up to which it has been taken in
--
-- ARGV[9…] inbox, sequence up to which it was taken in when its entries were read, sequence after this call, version of the
--          plan rules, main queue, token of the release that takes them in, to hand them back, or '', number of jobs, and each
--          of them as in `enqueue`
-- Returns  as `enqueue` for one request, `taken` if somebody else took the entries in, or `released` if another release of the
--          main queue is under way, or that one no more

local ctx = require('lib/context')
local enqueue_module = require('queue/enqueue')
local wire = require('lib/wire')
local runtime = require('lib/runtime')

local commit, guarded = runtime.commit, runtime.guarded
local enqueue, register_queues = enqueue_module.enqueue, enqueue_module.register_queues
local call = redis.call

local function run()
  local name, before, after, version, jobs = ctx.args[9], ctx.args[10], ctx.args[11], ctx.args[12], tonumber(ctx.args[15])
  if (call('HGET', ctx.prefix .. 'release:' .. ctx.args[13], 'token') or '') ~= ctx.args[14] then return 'released' end
  if (call('HGET', ctx.prefix .. 'inboxes', name) or '0') ~= before then return 'taken' end
  -- What is handed back in a moment does not count against the rule's bound.
  local import = {exceeds_bound = ctx.args[14] ~= ''}
  local result = jobs == 0 and 'ok' or guarded(enqueue, '', 16, jobs, false, version, import)
  if type(result) == 'table' then result = wire.join_list(result) end
  if string.sub(result, 1, 2) ~= 'ok' then return result end
  call('HSET', ctx.prefix .. 'inboxes', name, after)
  register_queues()
  commit()
  return result
end

return run
