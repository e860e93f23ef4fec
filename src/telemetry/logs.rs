//! Logs on standard error: for people on a terminal, as JSON lines elsewhere.

use crate::config::{Log, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging for the rest of the process; the reason if the level cannot be read.
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| format!("log.level {:?}: {error}", log.level))?;
    let for_people = match log.format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match for_people {
        true => builder.with_target(false).try_init(),
        false => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| error.to_string())
}
