//! Errors of webhook requests.

/// A failed webhook request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    pub kind: ErrorKind,
    /// For logs and events; contains neither a secret nor the path of the URL, which may be one.
    pub text: String,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No complete answer within the deadline.
    Timeout,
    /// No connection, or it broke before the answer began.
    Unreachable,
    /// A status other than 2xx.
    Status,
    /// The answer is too large.
    TooLarge,
    /// A redirect, which is not followed.
    Redirect,
    /// The answer is incomplete or not the expected JSON.
    Unreadable,
    /// Not sent, because too many requests failed.
    BreakerOpen,
}

impl ErrorKind {
    /// Returns the name used in metrics, statistics and events.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Timeout => "timeout",
            ErrorKind::Unreachable => "unreachable",
            ErrorKind::Status => "status",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Redirect => "redirect",
            ErrorKind::Unreadable => "unreadable",
            ErrorKind::BreakerOpen => "breaker_open",
        }
    }

    pub(super) fn with(self, text: impl Into<String>) -> Error {
        Error { kind: self, text: text.into() }
    }
}

/// A webhook URL that is not supported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("weights.webhook.url of rule {rule:?} is not an http:// or https:// URL: {reason}")]
pub struct InvalidUrl {
    pub rule: String,
    pub reason: String,
}
