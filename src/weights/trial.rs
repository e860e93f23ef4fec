//! A single call of a rule's webhook that records everything sent and received, for people who set
//! one up.

use super::client::USER_AGENT;
use super::webhook::{Webhook, body, check_status, media_type, read, unsent};
use super::{Ask, Client, InvalidUrl, WebhookAnswer, reply};
use crate::config::{Secret, redact};
use crate::domain::plan::Rule;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of characters kept of a response's body.
const MOST_SHOWN: usize = 4000;
/// Replaces secret header values.
const HIDDEN: &str = "***";

/// A call of a webhook.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The address with secrets redacted.
    pub url: String,
    pub timeout: Duration,
    /// Names and values; secret values are hidden.
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub took: Duration,
    pub response: Option<Received>,
    pub answer: WebhookAnswer,
    /// The text of each value of the answer, by tenant.
    pub values: BTreeMap<String, String>,
}

/// A response, usable or not.
#[derive(Clone, Debug)]
pub struct Received {
    pub status: String,
    pub media_type: String,
    /// The beginning of the body.
    pub body: String,
}

impl Trial {
    /// Calls the webhook of a rule once, without a circuit breaker. Returns `None` if the rule has
    /// no webhook.
    pub async fn run(
        rule: &Rule,
        secret: Option<Secret>,
        http: Client,
        ask: &Ask,
        now_ms: i64,
    ) -> Result<Option<Trial>, InvalidUrl> {
        let Some(of_rule) = &rule.weights.webhook else { return Ok(None) };
        let webhook = Webhook::new(&rule.name, of_rule, secret, http.clone())?;
        let request = webhook.request(ask, now_ms).and_then(|builder| builder.build().map_err(unsent));
        let mut trial = Trial {
            url: redact(&of_rule.url).text,
            timeout: webhook.timeout(),
            headers: Vec::new(),
            body: String::new(),
            took: Duration::ZERO,
            response: None,
            answer: Ok(Default::default()),
            values: BTreeMap::new(),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => return Ok(Some(Trial { answer: Err(error), ..trial })),
        };
        trial.headers = shown_headers(request.headers());
        let sent = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
        trial.body = String::from_utf8_lossy(sent).into_owned();
        let (started, response, values) = (Instant::now(), &mut trial.response, &mut trial.values);
        let exchange = async {
            let answered = http.execute(request).await.map_err(unsent)?;
            let (status, media_type) = (answered.status(), media_type(answered.headers()));
            let received = Received { status: status.to_string(), media_type, body: String::new() };
            let received = response.insert(received);
            // Read error pages, too: they often state the problem.
            let body = body(answered).await;
            if let Ok(body) = &body {
                received.body = String::from_utf8_lossy(body).chars().take(MOST_SHOWN).collect();
            }
            check_status(status)?;
            let body = body?;
            *values = reply::values(&body);
            read(ask, status, &received.media_type, &body)
        };
        trial.answer = webhook.within_deadline(exchange).await;
        trial.took = started.elapsed();
        Ok(Some(trial))
    }
}

fn shown_headers(headers: &reqwest::header::HeaderMap) -> Vec<(String, String)> {
    let value = |name: &str, value: &str| match name {
        "authorization" => HIDDEN.to_owned(),
        "x-ojs-signature" => format!("sha256={HIDDEN}"),
        _ => value.to_owned(),
    };
    let shown = headers.iter().map(|(name, text)| {
        let text = value(name.as_str(), text.to_str().unwrap_or(HIDDEN));
        (name.as_str().to_owned(), text)
    });
    let mut shown: Vec<(String, String)> = shown.collect();
    shown.push(("user-agent".to_owned(), USER_AGENT.to_owned()));
    shown.sort();
    shown
}
