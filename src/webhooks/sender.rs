//! One delivery: a signed POST with a deadline. Redirects are not followed, and only the status of
//! the answer matters.

use super::address::{Destinations, PublicOnly, check_name, check_url};
use crate::config::Secret;
use crate::weights::{client_builder, signature};
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

/// A delivery to send.
pub struct Letter<'a> {
    pub url: &'a str,
    /// The secrets that sign it: the current one, and for a day the previous one.
    pub secrets: &'a [Secret],
    pub delivery: &'a str,
    pub subscription: &'a str,
    /// The event's type; `body` is the event itself.
    pub kind: &'a str,
    pub body: &'a str,
    /// Seconds since the epoch; signed together with the body.
    pub timestamp: i64,
}

/// The answer of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub status: u16,
    /// Number of seconds after which the endpoint wants a retry.
    pub retry_after: Option<u64>,
}

impl Sent {
    /// Returns true if the endpoint accepted the delivery.
    pub fn is_taken(self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns true if a retry makes sense: the endpoint failed or was overloaded.
    pub fn may_be_repeated(self) -> bool {
        self.status >= 500 || matches!(self.status, 408 | 429)
    }
}

/// Sends deliveries; clones share the connections.
#[derive(Clone)]
pub struct Sender {
    http: Client,
    allowed: Destinations,
}

impl Sender {
    /// Creates a sender.
    pub fn new(allowed: Destinations) -> Result<Sender, reqwest::Error> {
        let builder = client_builder().timeout(DEADLINE);
        let builder = match allowed {
            Destinations::Any => builder,
            Destinations::Public => builder.dns_resolver(Arc::new(PublicOnly)).https_only(true),
        };
        Ok(Sender { http: builder.build()?, allowed })
    }

    /// Checks if deliveries to a URL are allowed. Returns a message if they are not.
    pub async fn check(&self, url: &str) -> Result<(), String> {
        check_url(url, self.allowed)?;
        match self.allowed {
            Destinations::Any => Ok(()),
            Destinations::Public => check_name(url).await,
        }
    }

    /// Sends a delivery. Returns a message if there was no answer.
    pub async fn send(&self, letter: &Letter<'_>) -> Result<Sent, String> {
        // Names are resolved and checked by the HTTP client.
        check_url(letter.url, self.allowed)?;
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
