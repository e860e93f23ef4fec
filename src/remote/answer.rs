//! One answer of a server, read completely within a size limit.

use super::{Error, ErrorKind};
use crate::domain::json::Object;
use crate::weights::causes;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use serde_json::Value;
use std::time::Duration;

/// Maximum number of bytes read of an answer. A request is about a megabyte unless one job is
/// larger, and its answer is slightly larger than the request.
const MOST_BYTES: usize = 32 << 20;
/// Maximum number of characters quoted of a server's error.
const MOST_SHOWN: usize = 200;
/// Maximum wait that a server may ask for.
const LONGEST: Duration = Duration::from_secs(3600);
/// The wait if a busy server does not specify one.
const USUAL: Duration = Duration::from_secs(1);

/// An answer of a server.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The server's time in epoch milliseconds, if it is in the answer.
    pub(super) date: Option<i64>,
    retry_after: Option<Duration>,
    media_type: String,
    body: Vec<u8>,
}

impl Answer {
    pub(super) async fn read(mut response: Response) -> Result<Answer, Error> {
        let headers = response.headers();
        let date = text(headers, &DATE).and_then(http_date);
        let retry_after = text(headers, &RETRY_AFTER).and_then(|text| wait(text, date));
        let media_type = text(headers, &CONTENT_TYPE).unwrap_or("no content-type").chars().take(80).collect();
        let status = response.status().as_u16();
        let broke_off =
            |error: reqwest::Error| ErrorKind::Unreachable.with(format!("the response was cut off: {}", causes(error)));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broke_off)? {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(ErrorKind::Unreadable.with(format!("the response is larger than {MOST_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, date, retry_after, media_type, body })
    }

    /// Returns the body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON.
    pub(super) fn json(&self) -> Result<Value, Error> {
        serde_json::from_slice(&self.body).map_err(|_| self.unreadable())
    }

    /// Parses the body as a JSON object, keeping values as text, because numbers in a job may not
    /// fit our types.
    pub(super) fn object(&self) -> Result<Object<'_>, Error> {
        let text = std::str::from_utf8(&self.body).map_err(|_| self.unreadable())?;
        Object::parse(text).map_err(|_| self.unreadable())
    }

    /// Returns `error.code` and `error.message` of a refusal, if the body contains them.
    pub(super) fn refusal(&self) -> Option<(String, String)> {
        let value: Value = serde_json::from_slice(&self.body).ok()?;
        let text =
            |name: &str| value["error"][name].as_str().map(|text| text.chars().take(MOST_SHOWN).collect::<String>());
        Some((text("code")?, text("message").unwrap_or_default()))
    }

    pub(super) fn unreadable(&self) -> Error {
        let Answer { status, media_type, .. } = self;
        ErrorKind::Unreadable.with(format!(
            "returned HTTP {status} with a body that is not OJS ({media_type}); check that the url leads to the server itself"
        ))
    }

    /// Returns the error that the status alone implies: the server is busy, denies access, fails,
    /// or has moved.
    pub(super) fn trouble(&self) -> Option<Error> {
        let status = self.status;
        let said = || self.refusal().map(|(code, message)| format!(" ({code}: {message})")).unwrap_or_default();
        match status {
            429 | 503 if status == 429 || self.retry_after.is_some() => {
                let wait = self.retry_after.unwrap_or(USUAL);
                Some(ErrorKind::Busy(wait).with(format!("returned HTTP {status}{}; it asks to wait {wait:?}", said())))
            }
            401 => Some(ErrorKind::Unauthorized.with(format!("returned HTTP 401{}; check its token", said()))),
            403 if self.refusal().is_none_or(|(code, _)| ["forbidden", "unauthorized"].contains(&code.as_str())) => {
                let text = format!("returned HTTP 403{}; its token lacks the permission", said());
                Some(ErrorKind::Unauthorized.with(text))
            }
            300..=399 => {
                let text =
                    format!("returned HTTP {status}; redirects are not followed, configure their target instead");
                Some(ErrorKind::Status.with(text))
            }
            500.. => Some(ErrorKind::Status.with(format!("returned HTTP {status}{}", said()))),
            _ => None,
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn http_date(text: &str) -> Option<i64> {
    Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond())
}

/// Parses a `Retry-After` header: seconds or a date.
fn wait(text: &str, date: Option<i64>) -> Option<Duration> {
    let seconds = || text.trim().parse::<u64>().ok().map(Duration::from_secs);
    let until = || {
        let left = http_date(text)? - date?;
        Some(Duration::from_millis(left.max(0).unsigned_abs()))
    };
    seconds().or_else(until).map(|wait| wait.clamp(Duration::from_millis(100), LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_time() {
        let date = http_date("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date, Some(784_111_777_000));
        for (text, expected) in [
            ("3", Some(Duration::from_secs(3))),
            ("0", Some(Duration::from_millis(100))),
            ("99999999", Some(LONGEST)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(Duration::from_secs(10))),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(Duration::from_millis(100))),
            ("soon", None),
            ("-3", None),
        ] {
            assert_eq!(wait(text, date), expected, "{text}");
        }
    }
}
