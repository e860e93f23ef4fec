//! Logs on standard error: human-readable on a terminal, JSON lines elsewhere.

use super::Repeats;
use crate::config::{Log, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Starts logging for the rest of the process. Returns the counter of repeated warnings and errors,
/// or an error if the level is invalid.
pub fn start(log: &Log) -> Result<Repeats, String> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| format!("log.level {:?}: {error}", log.level))?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match is_for_people(log) {
        true => lines.with_target(false).boxed(),
        false => lines.json().flatten_event(true).boxed(),
    };
    let repeats = Repeats::default();
    let subscriber = tracing_subscriber::registry().with(filter).with(lines.with_filter(repeats.clone()));
    subscriber.try_init().map_err(|error| error.to_string())?;
    Ok(repeats)
}

fn is_for_people(log: &Log) -> bool {
    match log.format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    }
}

/// Writes a line about the process itself, such as its readiness. Uses the format of the log but
/// ignores the level.
///
/// Prints `text` on a terminal, otherwise a JSON object with the constant `message` and `fields`.
pub fn announce(log: &Log, text: &str, level: &str, message: &str, fields: &[(&str, &str)]) {
    if is_for_people(log) {
        return eprintln!("{text}");
    }
    let mut line = serde_json::Map::new();
    line.insert("timestamp".to_owned(), jiff::Timestamp::now().to_string().into());
    let known = [("level", level), ("message", message)];
    for (name, value) in known.iter().chain(fields).chain(&[("target", "fairgate")]) {
        line.insert((*name).to_owned(), (*value).into());
    }
    eprintln!("{}", serde_json::Value::Object(line));
}
