-- Loads modules and runs commands. The bundler emits this file first, then each module as an entry
-- of `definitions`, then the entries of `commands`.
--
-- A module is set up once per library and then serves many calls. It resets its per-call data in
-- functions that it registers with `on_begin`, and writes at the end of a call in functions that it
-- registers with `on_commit` (see `lib/runtime`). These run only in calls of commands that require
-- the module, so no command pays for a module that it does not use.

local definitions, exports, begins, commits, commands = {}, {}, {}, {}, {}
local loading -- the name of the module that is being set up

local function require(name)
  if exports[name] == nil then
    local outer = loading
    loading = name
    exports[name] = definitions[name]()
    loading = outer
  end
  return exports[name]
end

local function append(lists, entry)
  local list = lists[loading] or {}
  lists[loading] = list
  list[#list + 1] = entry
end

exports.loader = {
  on_begin = function(reset) append(begins, reset) end,
  on_commit = function(phase, write) append(commits, {phase = phase, write = write}) end,
}

-- Sets up the modules of a command. The bundler lists each module after those that it requires.
local function prepare(command)
  command.begins, command.commits = {}, {}
  for _, name in ipairs(command.modules) do
    require(name)
    for _, reset in ipairs(begins[name] or {}) do command.begins[#command.begins + 1] = reset end
    for _, commit in ipairs(commits[name] or {}) do
      local phase = command.commits[commit.phase] or {}
      command.commits[commit.phase] = phase
      phase[#phase + 1] = commit.write
    end
  end
  command.handle = exports[command.name]
end

local function run(name, keys, args) -- luacheck: ignore run
  local command = commands[name]
  if not command.handle then prepare(command) end
  return exports['lib/runtime'].run(command, keys, args)
end
