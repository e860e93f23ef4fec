//! One delivery: a signed POST within a deadline. Redirects are not followed, and of an answer only the status counts.

use super::address::{PublicOnly, check_name, check_url};
use crate::config::Secret;
use crate::weights::{client_builder, signature};
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

/// What is sent.
pub struct Letter<'a> {
    pub url: &'a str,
    /// Those that sign it: the one that holds, and for a day the one before.
    pub secrets: &'a [Secret],
    pub delivery: &'a str,
    pub subscription: &'a str,
    /// The event's type and the event itself.
    pub kind: &'a str,
    pub body: &'a str,
    /// Seconds since the epoch, signed with the body.
    pub timestamp: i64,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub status: u16,
    /// Seconds after which the endpoint wants to hear of it again.
    pub retry_after: Option<u64>,
}

impl Sent {
    /// Whether the endpoint has taken it.
    pub fn is_taken(self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether it is of use to send it again: the endpoint's mistake, or too much for it now.
    pub fn may_be_repeated(self) -> bool {
        self.status >= 500 || matches!(self.status, 408 | 429)
    }
}

/// Sends letters; clones share its connections.
#[derive(Clone)]
pub struct Sender {
    http: Client,
    /// Whether it sends to addresses that are not public, and without TLS.
    private: bool,
}

impl Sender {
    /// A sender to public addresses, or to any.
    pub fn new(private: bool) -> Result<Sender, reqwest::Error> {
        let builder = client_builder().timeout(DEADLINE);
        let builder = if private { builder } else { builder.dns_resolver(Arc::new(PublicOnly)).https_only(true) };
        Ok(Sender { http: builder.build()?, private })
    }

    /// Whether it would send to a URL; a message says why not.
    pub async fn check(&self, url: &str) -> Result<(), String> {
        check_url(url, self.private)?;
        if self.private { Ok(()) } else { check_name(url).await }
    }

    /// Sends a letter; a message says why nothing came back.
    pub async fn send(&self, letter: &Letter<'_>) -> Result<Sent, String> {
        // Its name is looked up by the client.
        check_url(letter.url, self.private)?;
        let signatures: Vec<String> =
            letter.secrets.iter().map(|secret| signature(secret, letter.timestamp, letter.body)).collect();
        let request = self
            .http
            .post(letter.url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "OJS-Webhook/1.0")
            .header("X-OJS-Event-Type", letter.kind)
            .header("X-OJS-Delivery-ID", letter.delivery)
            .header("X-OJS-Subscription-ID", letter.subscription)
            .header("X-OJS-Timestamp", letter.timestamp)
            .header("X-OJS-Signature", signatures.join(","))
            .body(letter.body.to_owned());
        let response = request.send().await.map_err(|error| error.without_url().to_string())?;
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Sent { status: response.status().as_u16(), retry_after })
    }
}
