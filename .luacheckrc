-- Modules for the Lua 5.1 of Redis: see src/store/bundler.rs.
std = "lua51"
read_globals = {"redis", "KEYS", "ARGV", "cjson", "cmsgpack", "bit"}
max_line_length = false
