//! Lua scripts. Each is a command of one function library, which `build.rs` bundles from the modules in `lua/`.
//!
//! Redis keeps the library's functions between calls (FUNCTION LOAD, FCALL): setting them up takes longer than most calls.
//! A Redis without functions, or whose user may not load them, runs the same commands by EVALSHA from the same modules.

use super::connection::Connection;
use super::error::Error;
use redis::{Cmd, Value};

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// The prefix of our libraries' names, whatever their version.
const PREFIX: &str = "fairgate_";

/// The text of the library that has all commands.
const LIBRARY_TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/library.lua"));

/// A script, and the names by which Redis knows it.
pub(super) struct Script {
    pub(super) name: &'static str,
    /// Its function in the library. A script for the Redis of another system has none: only its text is kept there.
    pub(super) function: Option<&'static str>,
    /// The text that EVAL runs.
    text: &'static str,
    /// The digest of that text, for EVALSHA.
    sha: &'static str,
}

/// Scripts after which a client is told that its job is accepted or its answer kept, or a Sidekiq that its job was taken in.
const CONFIRMED: &[&str] = &["ENQUEUE", "ACK", "NACK", "WORKFLOW_START", "CRON_REGISTER", "INBOX_IMPORT"];

impl Script {
    /// Whether somebody is told that what it wrote is safe: it waits for `store.wait_replicas`.
    fn is_confirmed(&self) -> bool {
        CONFIRMED.contains(&self.name)
    }

    /// Calls the script. `fill` appends the arguments and is told whether the call is sent again.
    pub(super) async fn call(&self, connection: &Connection, fill: impl Fn(&mut Cmd, bool)) -> Result<Value, Error> {
        let send = async |verb: &str, script: &str, before: bool| {
            let make = |again| {
                let mut command = redis::cmd(verb);
                command.arg(script);
                fill(&mut command, again || before);
                command
            };
            match self.is_confirmed() {
                true => connection.call_confirmed(self.name, make).await,
                false => connection.call(self.name, make).await,
            }
        };
        let mut before = false;
        // Twice, because Redis may have been restarted or emptied of functions, or never had this one.
        for is_loaded in [false, true] {
            let Some(function) = self.function.filter(|_| connection.has_functions()) else { break };
            if is_loaded && !load_library(connection).await? {
                break;
            }
            match send("FCALL", function, before).await {
                Err(Error::NoScript { again }) => before = again,
                // A full Redis refuses a function whole, but a script only where it would take more memory.
                Err(error) if error.is_full() => {
                    before = true;
                    break;
                }
                outcome => return outcome,
            }
        }
        match send("EVALSHA", self.sha, before).await {
            // EVAL also stores the script.
            Err(Error::NoScript { again }) => send("EVAL", self.text, again).await,
            outcome => outcome,
        }
    }
}

/// Loads the library; false if there can be none here, which the connection then remembers.
async fn load_library(connection: &Connection) -> Result<bool, Error> {
    let make = |_| redis::cmd("FUNCTION").arg("LOAD").arg(LIBRARY_TEXT).to_owned();
    match connection.call("FUNCTION", make).await {
        Ok(_) => Ok(true),
        // Somebody else was faster. Its name has a digest of its text, so it is the same.
        Err(Error::Backend(reason)) if reason.contains("already exists") => Ok(true),
        Err(error) if error.is_full() => Ok(false),
        Err(Error::Backend(reason)) => {
            tracing::info!(reason, "Redis loads no functions for us; scripts are sent instead, which is slower");
            connection.without_functions();
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The text of the library, for a test that shows that Redis accepts it.
pub fn library_text() -> &'static str {
    LIBRARY_TEXT
}

/// Name and text of each command as EVAL runs it, for a test that shows that Redis accepts them all.
pub fn script_texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().map(|script| (script.name, script.text))
}

/// Deletes libraries that other versions of us have left behind. One that a process still uses is loaded again by it.
pub(super) async fn forget_others(connection: &Connection) -> Result<(), Error> {
    let make = |_| redis::cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(format!("{PREFIX}*")).to_owned();
    let listed = connection.call("FUNCTION", make).await?;
    let names: Vec<std::collections::HashMap<String, Value>> = redis::from_redis_value(listed).unwrap_or_default();
    for name in names.iter().filter_map(|library| library.get("library_name")) {
        let Ok(name) = redis::from_redis_value::<String>(name.clone()) else { continue };
        if name != LIBRARY {
            connection.call("FUNCTION", |_| redis::cmd("FUNCTION").arg("DELETE").arg(&name).to_owned()).await?;
        }
    }
    Ok(())
}
