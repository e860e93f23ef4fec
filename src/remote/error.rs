//! Errors of requests to a server.

use std::time::Duration;

/// A failed request. It says nothing about a job, so the request may be repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    pub kind: ErrorKind,
    /// For logs and statistics; contains neither the token nor data of a job.
    pub text: String,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection, or no complete answer within the deadline.
    Unreachable,
    /// It does not accept our token.
    Unauthorized,
    /// It asks to be left alone for this long.
    Busy(Duration),
    /// A status that reports an internal problem of the server, or an unexpected one.
    Status,
    /// The answer is not OJS, for example an error page of a proxy.
    Unreadable,
    /// An OJS server that fairgate cannot work with.
    Unsupported,
    /// The request is not allowed to be passed through.
    NotPassed,
}

impl ErrorKind {
    /// Returns the name used in statistics.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Unreachable => "unreachable",
            ErrorKind::Unauthorized => "unauthorized",
            ErrorKind::Busy(_) => "busy",
            ErrorKind::Status => "status",
            ErrorKind::Unreadable => "unreadable",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::NotPassed => "not_passed_through",
        }
    }

    pub(super) fn with(self, text: impl Into<String>) -> Error {
        Error { kind: self, text: text.into() }
    }
}
