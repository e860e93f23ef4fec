//! Bundles Lua modules into one function library and into scripts. Runs at build time: `build.rs`
//! includes this file.
//!
//! A module is a file `a/b.lua` that returns its exports and requires other modules by
//! `require('a/b')`. Files in `commands/` return the function that handles a command; files in
//! `remote/` are scripts for the Redis of another system.
//!
//! - The library has every command, for servers with functions (Redis 7 and later).
//! - The script of a command has only the modules that the command needs, for `EVALSHA` on older
//!   servers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The module that defines `require`; it comes first in every bundle.
const LOADER: &str = "loader";

/// The module that runs commands. Every command needs it, even without requiring it.
const RUNTIME: &str = "lib/runtime";

/// Lua modules by name: their path below the folder, without the ending.
pub struct Modules(BTreeMap<String, String>);

/// An error that prevents bundling.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// A required module does not exist.
    Missing { module: String, required_by: String },
    /// Modules require each other: each requires the next, and the last requires the first.
    Cycle(Vec<String>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing { module, required_by } => {
                write!(f, "{required_by} requires {module}, which does not exist")
            }
            Error::Cycle(names) => write!(f, "modules require each other: {}", names.join(" -> ")),
        }
    }
}

impl Modules {
    /// Reads all modules below a folder.
    pub fn read(folder: &Path) -> std::io::Result<Modules> {
        let mut sources = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(current) = folders.pop() {
            for entry in std::fs::read_dir(current)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "lua") {
                    let name = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
                    sources.insert(name.to_string_lossy().replace('\\', "/"), std::fs::read_to_string(&path)?);
                }
            }
        }
        Ok(Modules(sources))
    }

    /// Returns the names of the modules in a folder, without the folder, in alphabetical order.
    pub fn in_folder<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().filter_map(move |name| name.strip_prefix(folder)?.strip_prefix('/'))
    }

    /// Returns a module and all modules that it needs, dependencies first.
    pub fn closure<'a>(&'a self, name: &'a str) -> Result<Vec<&'a str>, Error> {
        let mut order = Vec::new();
        self.visit(name, name, &mut Vec::new(), &mut order)?;
        Ok(order)
    }

    fn visit<'a>(
        &'a self,
        name: &'a str,
        required_by: &str,
        path: &mut Vec<&'a str>,
        order: &mut Vec<&'a str>,
    ) -> Result<(), Error> {
        if name == LOADER || order.contains(&name) {
            return Ok(());
        }
        if let Some(start) = path.iter().position(|open| *open == name) {
            return Err(Error::Cycle(path[start..].iter().map(|&name| name.to_owned()).collect()));
        }
        let missing = || Error::Missing { module: name.to_owned(), required_by: required_by.to_owned() };
        let source = self.0.get(name).ok_or_else(missing)?;
        path.push(name);
        for required in requires(source) {
            self.visit(required, name, path, order)?;
        }
        path.pop();
        order.push(name);
        Ok(())
    }

    /// Returns the library with all commands. `name` is the library's name and the prefix of its
    /// functions.
    pub fn library(&self, name: &str) -> Result<String, Error> {
        let mut needed: Vec<&str> = Vec::new();
        let mut commands = String::new();
        for command in self.in_folder("commands") {
            let closure = self.command(command)?;
            commands += &definition_of_command(command, &closure);
            // Redis only allows a library to register functions while it is loaded.
            commands += &format!(
                "redis.register_function('{name}_{command}', function(keys, args) return run('{command}', keys, args) end)\n"
            );
            needed.extend(closure.into_iter().filter(|module| !needed.contains(module)).collect::<Vec<_>>());
        }
        Ok(format!("#!lua name={name}\n{}{commands}", self.definitions(&needed)))
    }

    /// Returns the script of one command.
    pub fn script(&self, command: &str) -> Result<String, Error> {
        let closure = self.command(command)?;
        let (definitions, entry) = (self.definitions(&closure), definition_of_command(command, &closure));
        Ok(format!("{definitions}{entry}return run('{command}', KEYS, ARGV)\n"))
    }

    /// Returns a script for the Redis of another system: the modules that it requires, then its own
    /// text.
    pub fn remote_script(&self, name: &str) -> Result<String, Error> {
        let path = format!("remote/{name}");
        let mut closure: Vec<String> = self.closure(&path)?.into_iter().map(str::to_owned).collect();
        closure.retain(|module| *module != path);
        let modules: Vec<&str> = closure.iter().map(String::as_str).collect();
        let before = if modules.is_empty() { String::new() } else { self.definitions(&modules) };
        Ok(before + &self.0[&path])
    }

    /// Returns the modules that a command needs, dependencies first and the command last.
    fn command(&self, command: &str) -> Result<Vec<&str>, Error> {
        let (path, _) = self.0.get_key_value(&format!("commands/{command}")).ok_or_else(|| Error::Missing {
            module: format!("commands/{command}"),
            required_by: "the bundler".to_owned(),
        })?;
        let mut order = Vec::new();
        if self.0.contains_key(RUNTIME) {
            self.visit(RUNTIME, path, &mut Vec::new(), &mut order)?;
        }
        self.visit(path, path, &mut Vec::new(), &mut order)?;
        Ok(order)
    }

    /// Wraps each module in a function, because a Lua function has room for only 200 locals.
    fn definitions(&self, names: &[&str]) -> String {
        let mut text = self.0.get(LOADER).map(|source| without_comments(source)).unwrap_or_default();
        for name in names {
            text += &format!("definitions['{name}'] = function()\n{}end\n", without_comments(&self.0[*name]));
        }
        text
    }
}

fn definition_of_command(command: &str, closure: &[&str]) -> String {
    let modules: Vec<String> = closure.iter().map(|name| format!("'{name}'")).collect();
    format!("commands['{command}'] = {{name = 'commands/{command}', modules = {{{}}}}}\n", modules.join(", "))
}

/// Removes comment lines and empty lines, because Redis stores the whole text and parses it on
/// every load.
fn without_comments(source: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("--") && !line.trim().is_empty();
    source.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the modules that a text requires, in order of appearance. Comment lines are ignored.
fn requires(source: &str) -> impl Iterator<Item = &str> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("--"));
    code.flat_map(|line| line.split("require('").skip(1)).filter_map(|rest| rest.split_once("')").map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::{Error, Modules};

    fn modules(sources: &[(&str, &str)]) -> Modules {
        Modules(sources.iter().map(|(name, text)| ((*name).to_owned(), format!("{text}\n"))).collect())
    }

    #[test]
    fn a_closure_has_what_a_module_needs_before_it_and_nothing_else() {
        let modules = modules(&[
            ("commands/fetch", "local lane = require('queue/lane')\nlocal ctx = require('lib/context')"),
            ("queue/lane", "-- see require('queue/job')\nlocal ctx = require('lib/context')"),
            ("queue/job", "return {}"),
            ("lib/context", "return {}"),
        ]);
        assert_eq!(modules.closure("commands/fetch"), Ok(vec!["lib/context", "queue/lane", "commands/fetch"]));
        assert!(!modules.script("fetch").unwrap().contains("definitions['queue/job']"));
    }

    #[test]
    fn a_module_that_does_not_exist_is_named_with_the_one_that_requires_it() {
        let modules = modules(&[("commands/fetch", "require('queue/lane')"), ("queue/lane", "require('queue/gone')")]);
        let error = modules.library("fairgate").unwrap_err();
        assert_eq!(error, Error::Missing { module: "queue/gone".to_owned(), required_by: "queue/lane".to_owned() });
        assert_eq!(error.to_string(), "queue/lane requires queue/gone, which does not exist");
    }

    #[test]
    fn modules_that_require_each_other_are_named() {
        let modules = modules(&[
            ("commands/fetch", "require('queue/lane')"),
            ("queue/lane", "require('queue/job')"),
            ("queue/job", "require('queue/lane')"),
        ]);
        let cycle = ["queue/lane", "queue/job"].map(str::to_owned).to_vec();
        assert_eq!(modules.script("fetch"), Err(Error::Cycle(cycle)));
    }

    #[test]
    fn the_library_has_each_module_once_and_registers_each_command() {
        let modules = modules(&[
            ("loader", "-- Loads.\nlocal definitions"),
            ("commands/ack", "require('queue/job')"),
            ("commands/fetch", "require('queue/job')"),
            ("queue/job", "return {}"),
        ]);
        let library = modules.library("fairgate_1").unwrap();
        assert!(library.starts_with("#!lua name=fairgate_1\nlocal definitions\n"), "{library}");
        assert_eq!(library.matches("definitions['queue/job']").count(), 1);
        assert!(library.contains("commands['ack'] = {name = 'commands/ack', modules = {'queue/job', 'commands/ack'}}"));
        assert!(library.contains("redis.register_function('fairgate_1_ack', "));
    }

    #[test]
    fn the_modules_of_this_program_are_read_by_their_paths() {
        let modules =
            Modules::read(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/lua"))).unwrap();
        assert!(modules.in_folder("commands").any(|command| command == "fetch"));
        let needed = modules.closure("queue/lane").unwrap();
        assert!(needed.contains(&"lib/runtime") && !needed.contains(&"dispatch/turn"), "{needed:?}");
    }

    #[test]
    fn a_script_for_another_redis_is_its_own_text_behind_what_it_requires() {
        let modules = modules(&[
            ("loader", "-- Loads.\nlocal definitions"),
            ("remote/look", "return 1"),
            ("remote/give_back", "local restore = require('sidekiq/restore')\nreturn restore()"),
            ("sidekiq/restore", "return print"),
        ]);
        assert_eq!(modules.remote_script("look"), Ok("return 1\n".to_owned()));
        let text = modules.remote_script("give_back").unwrap();
        assert!(text.starts_with("local definitions\ndefinitions['sidekiq/restore'] = function()\n"), "{text}");
        assert!(text.ends_with("return restore()\n"));
    }
}
