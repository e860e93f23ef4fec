//! Why a server did not do what it was asked for.

use std::time::Duration;

/// A request without success. It says nothing about a job: what was asked for may be asked for again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    pub kind: ErrorKind,
    /// For log and stats; holds neither the token nor anything of a job.
    pub text: String,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection, or no complete answer within the deadline.
    Unreachable,
    /// It does not accept our token.
    Unauthorized,
    /// It asks to be left alone for so long.
    Busy(Duration),
    /// A status that tells of its own trouble, or that we do not expect.
    Status,
    /// Its answer is no OJS: a page of some proxy, perhaps.
    Unreadable,
    /// It is an OJS server that we cannot work with.
    Unsupported,
    /// A request that is not passed through.
    NotPassed,
}

impl ErrorKind {
    /// As stats show it.
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
