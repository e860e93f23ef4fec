-- Arguments and replies with named fields. A command that is not called for each job takes its
-- arguments as one msgpack value and returns its reply as another; `src/store/packed.rs` is the
-- counterpart. Headers of commands list fields with their types; `?` marks those that may be nil.
--
-- ARGV[9]   the arguments
-- ARGV[10]  1 if this call is a resend, which reads as the field `is_resend`
-- ARGV[11…] of some commands: jobs, as `queue/enqueue` describes them
--
-- In a reply, an outcome is its name, or `{name = fields}` if it has fields. Values from Redis are
-- strings: `tonumber` makes numbers of them, and `value or nil` removes the `false` of a missing
-- value.

local ctx = require('lib/context')

local pack, unpack_value = cmsgpack.pack, cmsgpack.unpack

-- Returns the arguments of the call.
local function read()
  local args = unpack_value(ctx.args[9])
  args.is_resend = ctx.args[10] == '1'
  return args
end

return {read = read, write = pack, FIRST_WORD = 11}
