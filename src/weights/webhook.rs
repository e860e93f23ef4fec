//! One exchange with the webhook: signed, with a deadline, and without trust in the answer.

use super::ask::Body;
use super::reply::{self, ReceivedWeights};
use super::{Ask, Error, ErrorKind, InvalidUrl, causes};
use crate::config::Secret;
use crate::domain::plan;
use hmac::{Hmac, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use sha2::Sha256;
use std::time::Duration;

/// Maximum size of an answer in bytes; 1 MiB holds the weights of some ten thousand tenants.
const MOST_BYTES: usize = 1 << 20;

/// The webhook of one rule.
pub(super) struct Webhook {
    rule: String,
    url: Url,
    timeout: Duration,
    secret: Option<Secret>,
    http: Client,
}

impl Webhook {
    pub(super) fn new(
        rule: &str,
        webhook: &plan::Webhook,
        secret: Option<Secret>,
        http: Client,
    ) -> Result<Webhook, InvalidUrl> {
        let invalid = |reason: String| InvalidUrl { rule: rule.to_owned(), reason };
        let url = Url::parse(&webhook.url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid(format!("its scheme is {:?}", url.scheme())));
        }
        Ok(Webhook { rule: rule.to_owned(), url, timeout: Duration::from_millis(webhook.timeout), secret, http })
    }

    /// Returns the webhook's address without the parts of its URL that may be secret.
    pub(super) fn place(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Sends a request and reads the whole answer within the deadline.
    pub(super) async fn ask(&self, ask: &Ask, now_ms: i64) -> Result<ReceivedWeights, Error> {
        self.within_deadline(self.exchange(ask, now_ms)).await
    }

    /// Ends an exchange at the deadline, and adds the webhook's address to errors.
    pub(super) async fn within_deadline(
        &self,
        exchange: impl Future<Output = Result<ReceivedWeights, Error>>,
    ) -> Result<ReceivedWeights, Error> {
        let late = |_| ErrorKind::Timeout.with(format!("no complete response within {:?}", self.timeout));
        let answer = tokio::time::timeout(self.timeout, exchange).await.map_err(late).flatten();
        answer.map_err(|error| error.kind.with(format!("weights webhook {}: {}", self.place(), error.text)))
    }

    async fn exchange(&self, ask: &Ask, now_ms: i64) -> Result<ReceivedWeights, Error> {
        let response = self.request(ask, now_ms)?.send().await.map_err(unsent)?;
        let status = response.status();
        check_status(status)?;
        let media_type = media_type(response.headers());
        read(ask, status, &media_type, &body(response).await?)
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn request(&self, ask: &Ask, now_ms: i64) -> Result<RequestBuilder, Error> {
        let body = serde_json::to_string(&Body { rule: &self.rule, ask })
            .map_err(|error| ErrorKind::Unreachable.with(format!("cannot serialize the request: {error}")))?;
        let mut request = self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(secret) = &self.secret {
            let timestamp = now_ms / 1000;
            let signature = signature(secret, timestamp, &body);
            request = request.header("X-OJS-Timestamp", timestamp).header("X-OJS-Signature", signature);
        }
        Ok(request.body(body))
    }
}

/// Returns the signature that OJS defines for event webhooks. It covers the timestamp, so that a
/// receiver can refuse replays.
pub fn signature(secret: &Secret, timestamp: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{timestamp}.").as_bytes());
    mac.update(body.as_bytes());
    format!("sha256={:x}", mac.finalize().into_bytes())
}

/// Returns an error for every status except 2xx.
pub(super) fn check_status(status: StatusCode) -> Result<(), Error> {
    if status.is_redirection() {
        let text = format!("returned HTTP {status}; redirects are not followed, configure their target instead");
        return Err(ErrorKind::Redirect.with(text));
    }
    if status.is_success() { Ok(()) } else { Err(ErrorKind::Status.with(format!("returned HTTP {status}"))) }
}

/// Parses a successful answer.
pub(super) fn read(ask: &Ask, status: StatusCode, media_type: &str, body: &[u8]) -> Result<ReceivedWeights, Error> {
    let asked = ask.tenants.iter().map(|tenant| tenant.id.as_str()).collect();
    reply::read(body, &asked)
        .map_err(|reason| ErrorKind::Unreadable.with(format!("returned HTTP {status} ({media_type}): {reason}")))
}

/// Reads a body chunk by chunk and stops at the limit, regardless of its declared length.
pub(super) async fn body(mut response: Response) -> Result<Vec<u8>, Error> {
    let too_large = || ErrorKind::TooLarge.with(format!("the response is larger than {MOST_BYTES} bytes"));
    if response.content_length().is_some_and(|length| length > MOST_BYTES as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    let broke_off = |error| ErrorKind::Unreadable.with(format!("the response was cut off: {}", causes(error)));
    while let Some(chunk) = response.chunk().await.map_err(broke_off)? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the media type, which shows in errors if the answer is an HTML page of a proxy.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("no content-type");
    value.chars().take(80).collect()
}

pub(super) fn unsent(error: reqwest::Error) -> Error {
    let kind = if error.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Unreachable };
    kind.with(causes(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_as_the_documentation_says() {
        // printf '1700000000.{"rule":"r"}' | openssl dgst -sha256 -hmac hunter2
        let expected = "sha256=1bf77ede72a714a39e4648cd4767d5d47716c428050516f705497c1b0f011881";
        assert_eq!(signature(&Secret::new("hunter2"), 1_700_000_000, r#"{"rule":"r"}"#), expected);
    }

    #[test]
    fn only_http_urls_are_asked() {
        let http = super::super::client_builder().build().unwrap();
        let new = |url: &str| {
            let webhook = plan::Webhook { url: url.to_owned(), timeout: 1, secret_env: None };
            Webhook::new("r", &webhook, None, http.clone()).map(|webhook| webhook.place())
        };
        assert_eq!(new("https://user:hunter2@host/hunter2?q=hunter2").unwrap(), "https://host");
        for url in ["", "/weights", "localhost:9000", "ftp://host/", "http://", "file:///etc/passwd"] {
            let error = new(url).unwrap_err().to_string();
            assert!(
                error.starts_with("weights.webhook.url of rule \"r\" is not an http:// or https:// URL: "),
                "{error}"
            );
        }
    }
}
