//! What can go wrong between us and Redis, in terms of what a caller can do about it.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use std::time::Duration;

/// What Redis says to FCALL of a function that it does not have, or may not have.
const FORGOTTEN: [&str; 3] = ["Function not found", "unknown command 'FCALL'", "permissions to run the 'fcall'"];

/// A failed call to the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Redis is away, loading, full or read-only: try again a little later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Redis did not answer in time; the call may or may not have been carried out.
    #[error("the store did not answer within {0:?}")]
    Timeout(Duration),
    /// More requests are waiting for Redis than we are willing to hold.
    #[error("too many requests are waiting for the store")]
    Busy,
    /// The data in Redis was written by a version that we do not know.
    #[error("{0}")]
    Schema(String),
    /// Redis has forgotten a script; it is sent again as text, so that no caller sees this.
    #[error("the store does not know the script")]
    NoScript {
        /// Whether the call had been sent before, over a connection that broke.
        again: bool,
    },
    /// A main queue that is not the store's own is away, or does not do what it is asked for.
    #[error("main queue {name}: {reason}")]
    MainQueue { name: String, cause: &'static str, reason: String },
    /// A worker is of one pool, and it is this one.
    #[error("the worker belongs to pool {0}")]
    OtherPool(String),
    /// Redis refused the call, or answered with something we cannot read: a bug or a damaged key.
    #[error("the store answered with an error: {0}")]
    Backend(String),
}

/// Whether a failed call may be sent again, given that every call is harmless when repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The connection broke: connect anew, then send again.
    Connection,
    /// It points to a server that is not the primary: connect anew, because another one may be by now, and send again once.
    Moved,
    /// The server is there and refuses for now.
    Refused,
    /// Sending again would give the same answer.
    Final,
}

impl Error {
    pub(super) fn from_redis(error: &RedisError) -> (Error, Loss) {
        let text = error.to_string();
        if error.is_timeout() || error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal() {
            return (Error::Unavailable(text), Loss::Connection);
        }
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
                (Error::Unavailable(text), Loss::Moved)
            }
            ErrorKind::Server(ServerErrorKind::NoScript) => (Error::NoScript { again: false }, Loss::Final),
            ErrorKind::Server(
                ServerErrorKind::BusyLoading | ServerErrorKind::ClusterDown | ServerErrorKind::TryAgain,
            ) => (Error::Unavailable(text), Loss::Refused),
            ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel => (Error::Unavailable(text), Loss::Connection),
            ErrorKind::AuthenticationFailed => (Error::Unavailable(text), Loss::Refused),
            _ => match error.code() {
                _ if FORGOTTEN.iter().any(|part| text.contains(part)) => {
                    (Error::NoScript { again: false }, Loss::Final)
                }
                // A script that meets a full or failing disk ends with one of these, before it wrote anything.
                Some("OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "NOAUTH" | "WRONGPASS") => {
                    (Error::Unavailable(text), Loss::Refused)
                }
                _ => (Error::Backend(text), Loss::Final),
            },
        }
    }

    /// Whether Redis refused because it may not take more memory.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Error::Unavailable(text) if text.contains("OOM"))
    }

    /// What is wrong, without the words that say that it is the store: another system's Redis fails with the same errors.
    pub fn reason(&self) -> String {
        match self {
            Error::Unavailable(text) | Error::Backend(text) | Error::Schema(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// What is wrong, in a word that people can look up and alerts can go by.
    pub fn cause(&self) -> &'static str {
        let text = match self {
            Error::Unavailable(text) | Error::Backend(text) => text.as_str(),
            Error::MainQueue { cause, .. } => return cause,
            Error::Timeout(_) => return "timeout",
            Error::Schema(_) => return "version",
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
