//! Errors of the store, sorted by what a caller can do about them.

use redis::{Arg, Cmd, ErrorKind, RedisError};
use std::time::Duration;

/// A failed call to the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Redis is unreachable, loading, full or read-only. A retry may succeed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Redis did not answer in time. The call may or may not have been carried out.
    #[error("the store did not answer within {0:?}")]
    Timeout(Duration),
    /// Fewer replicas than `store.wait_replicas` confirmed the call in time. The primary has
    /// carried it out.
    #[error("the store carried the call out, but only {confirmed} of {wanted} replicas confirmed it within {within:?}")]
    Unconfirmed { confirmed: usize, wanted: usize, within: Duration },
    /// Too many requests are waiting for Redis.
    #[error("too many requests are waiting for the store")]
    Busy,
    /// The data in Redis has a schema version that this program does not know.
    #[error("{0}")]
    Schema(String),
    /// Redis does not have the script. It is sent again as text, so callers never see this error.
    #[error("the store does not know the script")]
    NoScript {
        /// True if an earlier attempt was sent on a connection that broke.
        again: bool,
    },
    /// An external main queue is unreachable or refused a request.
    #[error("main queue {name}: {reason}")]
    MainQueue { name: String, cause: &'static str, reason: String },
    /// The worker belongs to another pool, which is named here.
    #[error("the worker belongs to pool {0}")]
    OtherPool(String),
    /// Redis refused the call, or its reply cannot be parsed: a bug or a damaged key.
    #[error("the store answered with an error: {0}")]
    Backend(String),
}

/// The way to retry a failed call. Every call is idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// The connection broke: reconnect and send again.
    Reconnect,
    /// The server is not the primary: reconnect, because another server may be by now, and send
    /// again once.
    ReconnectOnce,
    /// The cluster does not serve the slot now, or another node does: pause and send again. The
    /// call was not carried out.
    AfterPause,
    /// The server refuses the call for now. The caller may retry later.
    ByCaller,
    /// A retry would give the same error.
    Never,
}

impl Error {
    /// Classifies the error of a command, which may be a script call.
    pub(super) fn of_command(command: &Cmd, error: &RedisError) -> (Error, Retry) {
        match lacks_function(command, error) {
            true => (Error::NoScript { again: false }, Retry::Never),
            false => Error::from_redis(error),
        }
    }

    pub(super) fn from_redis(error: &RedisError) -> (Error, Retry) {
        let text = error.to_string();
        if error.is_timeout() || error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal() {
            return (Error::Unavailable(text), Retry::Reconnect);
        }
        match error.kind() {
            // A truncated reply: the server or the connection ended while it was sent.
            ErrorKind::Parse => return (Error::Unavailable(text), Retry::Reconnect),
            ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel => return (Error::Unavailable(text), Retry::Reconnect),
            ErrorKind::AuthenticationFailed => return (Error::Unavailable(text), Retry::ByCaller),
            _ => {}
        }
        match code_inside_script(error).or(error.code()) {
            Some("READONLY" | "MASTERDOWN") => (Error::Unavailable(text), Retry::ReconnectOnce),
            Some("NOSCRIPT") => (Error::NoScript { again: false }, Retry::Never),
            Some("MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN") => (Error::Unavailable(text), Retry::AfterPause),
            Some("LOADING") => (Error::Unavailable(text), Retry::ByCaller),
            // A script that meets full memory or a failing disk ends with one of these before it
            // writes anything.
            Some("OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "NOAUTH" | "WRONGPASS") => {
                (Error::Unavailable(text), Retry::ByCaller)
            }
            _ => (Error::Backend(text), Retry::Never),
        }
    }

    /// Returns true if Redis has reached its memory limit.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Error::Unavailable(text) if text.contains("OOM"))
    }

    /// Returns the message without the prefix that names the store. The Redis of another system
    /// fails with the same errors.
    pub fn reason(&self) -> String {
        match self {
            Error::Unavailable(text) | Error::Backend(text) | Error::Schema(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Returns a stable word for the cause, for documentation and alerts.
    pub fn cause(&self) -> &'static str {
        let text = match self {
            Error::Unavailable(text) | Error::Backend(text) => text.as_str(),
            Error::MainQueue { cause, .. } => return cause,
            Error::Timeout(_) => return "timeout",
            Error::Schema(_) => return "version",
            Error::Unconfirmed { .. } => return "unconfirmed",
            _ => "",
        };
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["did not answer within"]) {
            "timeout"
        } else if has(&["OOM"]) {
            "full"
        } else if has(&["READONLY", "ReadOnly"]) {
            "read_only"
        } else if has(&["WRONGPASS", "NOAUTH", "AuthenticationFailed", "invalid username-password", "NOPERM"]) {
            "password"
        } else if matches!(self, Error::Unavailable(_)) {
            "unreachable"
        } else {
            "refused"
        }
    }

    pub(super) fn unreadable(what: &str) -> Error {
        Error::Backend(format!("unexpected reply to {what}"))
    }
}

/// Returns true if FCALL failed because Redis cannot run the function: it does not have it, has no
/// functions at all (before 7.0), or refuses them to the user. The wording, quotes included,
/// differs between servers and versions, so command and code decide.
fn lacks_function(command: &Cmd, error: &RedisError) -> bool {
    if !matches!(command.args_iter().next(), Some(Arg::Simple(b"FCALL"))) {
        return false;
    }
    let detail = error.detail().unwrap_or_default().to_ascii_lowercase();
    match error.code() {
        Some("ERR") => {
            let is_unknown = detail.starts_with("unknown command") && detail.contains("fcall");
            is_unknown || detail.starts_with("function not found")
        }
        Some("NOPERM") => true,
        _ => false,
    }
}

/// Returns the code of the error that ended a script. Redis before 7.0 wraps it: `ERR Error running
/// script (…): … -OOM command not …`.
fn code_inside_script(error: &RedisError) -> Option<&str> {
    let wrapped = error.detail().filter(|detail| detail.starts_with("Error running script"))?;
    let (_, inner) = wrapped.split_once(": -")?;
    inner.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{ServerError, Value};

    fn error(line: &str) -> RedisError {
        let Ok(Value::ServerError(error)) = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) else {
            panic!("not an error: {line}")
        };
        ServerError::into(error)
    }

    #[test]
    fn a_missing_function_is_known_by_command_and_code() {
        for (verb, line, is_missing) in [
            ("FCALL", "ERR unknown command `FCALL`, with args beginning with: `x`, ", true),
            ("FCALL", "ERR unknown command 'FCALL', with args beginning with: 'x' ", true),
            ("FCALL", "ERR Function not found", true),
            ("FCALL", "NOPERM User bob has no permissions to run the 'fcall' command", true),
            ("FCALL", "NOPERM this user has no permissions to run the 'fcall' command", true),
            ("FCALL", "ERR Unknown command called from script script: on @user_script:1.", false),
            ("FCALL", "WRONGTYPE Operation against a key", false),
            ("HGET", "ERR unknown command `HGET`", false),
            ("EVALSHA", "NOSCRIPT No matching script.", true),
        ] {
            let (seen, _) = Error::of_command(&redis::cmd(verb), &error(line));
            assert_eq!(matches!(seen, Error::NoScript { .. }), is_missing, "{verb}: {line}: {seen:?}");
        }
    }

    #[test]
    fn a_slot_that_is_not_served_here_is_waited_for() {
        for line in [
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "CLUSTERDOWN Hash slot not served",
        ] {
            let (seen, retry) = Error::from_redis(&error(line));
            assert!(matches!(seen, Error::Unavailable(_)) && retry == Retry::AfterPause, "{line}: {seen:?} {retry:?}");
        }
    }

    #[test]
    fn the_code_of_an_error_is_found_inside_that_of_an_old_script() {
        for (line, retry) in [
            (
                "ERR Error running script (call to f_a): @user_script:1: @user_script: 1: -OOM command not allowed",
                Retry::ByCaller,
            ),
            (
                "ERR Error running script (call to f_a): @user_script:1: @user_script: 1: -READONLY You can't write",
                Retry::ReconnectOnce,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: a7f3, on @user_script:1.",
                Retry::ByCaller,
            ),
            ("ERR Error running script (call to f_a): @user_script:1: attempt to index a nil value", Retry::Never),
        ] {
            assert_eq!(Error::from_redis(&error(line)).1, retry, "{line}");
        }
    }
}
