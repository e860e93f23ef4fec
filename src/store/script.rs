//! Lua scripts. Each is a command of one function library, which `build.rs` bundles from the
//! modules in `lua/`.
//!
//! Redis keeps the library's functions between calls (FUNCTION LOAD, FCALL), because setting them
//! up takes longer than most calls. A Redis that has no functions, or does not let the user load
//! them, runs the same commands by EVALSHA.

use super::connection::Connection;
use super::error::Error;
use redis::{Cmd, Value};

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// The prefix of the library's name in all versions.
const PREFIX: &str = "fairgate_";

/// The text of the library with all commands.
const LIBRARY_TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/library.lua"));

/// A script and the names by which Redis knows it.
pub(super) struct Script {
    pub(super) name: &'static str,
    /// The script's function in the library. A script for the Redis of another system has none;
    /// there it runs by EVALSHA only.
    pub(super) function: Option<&'static str>,
    /// The text for EVAL.
    text: &'static str,
    /// The SHA-1 digest of the text, for EVALSHA.
    sha: &'static str,
}

/// Scripts whose reply promises a client that its data is stored.
const CONFIRMED: &[&str] = &["ENQUEUE", "ACK", "NACK", "WORKFLOW_START", "CRON_REGISTER", "INBOX_IMPORT"];

impl Script {
    /// Returns true if the call must wait for `store.wait_replicas`.
    fn is_confirmed(&self) -> bool {
        CONFIRMED.contains(&self.name)
    }

    /// Calls the script. `fill` appends the arguments; its flag is true if an earlier attempt may
    /// have been carried out.
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
        // Try twice: Redis may have lost the functions in a restart or a FLUSH, or never had this
        // one.
        for is_loaded in [false, true] {
            let Some(function) = self.function.filter(|_| connection.has_functions()) else { break };
            if is_loaded && !load_library(connection).await? {
                break;
            }
            match send("FCALL", function, before).await {
                Err(Error::NoScript { again }) => before = again,
                // A Redis at its memory limit refuses any function, but refuses a script only when
                // it needs more memory.
                Err(error) if error.is_full() => {
                    before = true;
                    break;
                }
                outcome => return outcome,
            }
        }
        match send("EVALSHA", self.sha, before).await {
            // EVAL also stores the script for EVALSHA.
            Err(Error::NoScript { again }) => send("EVAL", self.text, again).await,
            outcome => outcome,
        }
    }
}

/// Loads the library. Returns false if Redis refuses it; unless it is only full, the connection
/// remembers that.
async fn load_library(connection: &Connection) -> Result<bool, Error> {
    let make = |_| redis::cmd("FUNCTION").arg("LOAD").arg(LIBRARY_TEXT).to_owned();
    match connection.call("FUNCTION", make).await {
        Ok(_) => Ok(true),
        // Another process has loaded it. The name contains a digest of the text, so it is the same
        // library.
        Err(Error::Backend(reason)) if reason.contains("already exists") => Ok(true),
        Err(error) if error.is_full() => Ok(false),
        Err(Error::Backend(reason)) => {
            tracing::info!(reason, "Redis does not load functions; using EVALSHA, which is slower");
            connection.without_functions();
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns the text of the library, for tests.
pub fn library_text() -> &'static str {
    LIBRARY_TEXT
}

/// Returns the name and the EVAL text of each command, for tests.
pub fn script_texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().map(|script| (script.name, script.text))
}

/// Deletes libraries of other versions. A process that still uses one loads it again.
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
