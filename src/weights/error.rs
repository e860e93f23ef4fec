//! Why there are no weights.

/// A question that was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    pub kind: ErrorKind,
    /// For log and event; holds neither secret nor path of the URL, as that may be one.
    pub text: String,
}

/// What went wrong, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No complete answer within the deadline.
    Timeout,
    /// No connection, or it broke before the answer began.
    Unreachable,
    /// A status other than 2xx.
    Status,
    /// More bytes than an answer may have.
    TooLarge,
    /// The webhook is elsewhere; we do not go there.
    Redirect,
    /// Not JSON of the right shape, or it broke off.
    Unreadable,
    /// Not asked: it failed too often.
    BreakerOpen,
}

impl ErrorKind {
    /// The name in metrics, stats and events.
    pub fn as_str(self) -> &'static str {
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

/// A webhook's URL that cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("weights.webhook.url of rule {rule:?} is no http:// or https:// URL: {reason}")]
pub struct InvalidUrl {
    pub rule: String,
    pub reason: String,
}
