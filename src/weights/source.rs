//! The source of a rule's weights: its webhook behind a circuit breaker, with its recent results.

use super::webhook::Webhook;
use super::{Ask, Breaker, BreakerState, Error, ErrorKind, InvalidUrl, Pass, ReceivedWeights};
use crate::clock::Clock;
use crate::config::Secret;
use crate::domain::plan::Rule;
use crate::telemetry::WeightsMetrics;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// The result of a request: weights or an error.
pub type WebhookAnswer = Result<ReceivedWeights, Error>;

/// The source of one rule's weights.
pub struct WebhookSource {
    rule: String,
    webhook: Webhook,
    clock: Clock,
    metrics: WeightsMetrics,
    memory: Mutex<Memory>,
}

/// Recent results; written at the end of each request, read by statistics.
#[derive(Debug, Default)]
struct Memory {
    breaker: Breaker,
    last_success_at: Option<i64>,
    errors_total: u64,
    last_error: Option<String>,
    failing_since: Option<i64>,
}

/// The status of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookStatus {
    /// The time at which the webhook last returned usable weights, in epoch milliseconds.
    pub last_success_at: Option<i64>,
    /// Number of failed requests, without those that the breaker blocked.
    pub errors_total: u64,
    /// The last failure; kept after the webhook has recovered.
    pub last_error: Option<String>,
    /// The time of the first of the current failures in a row; `None` while the webhook works.
    pub failing_since: Option<i64>,
    pub breaker: BreakerState,
    /// The time of the next attempt, while the breaker is open.
    pub next_attempt_at: Option<i64>,
}

impl WebhookSource {
    /// The name of this source in statistics and round reports.
    pub const NAME: &str = "webhook";

    /// Creates the source of a rule; `None` if the rule has no webhook.
    pub fn new(
        rule: &Rule,
        secret: Option<Secret>,
        http: reqwest::Client,
        clock: Clock,
        metrics: WeightsMetrics,
    ) -> Result<Option<WebhookSource>, InvalidUrl> {
        let Some(webhook) = &rule.weights.webhook else { return Ok(None) };
        let webhook = Webhook::new(&rule.name, webhook, secret, http)?;
        let rule = rule.name.clone();
        Ok(Some(WebhookSource { rule, webhook, clock, metrics, memory: Mutex::default() }))
    }

    /// Requests weights. Ends within the webhook's timeout, and at once while the breaker is open.
    pub async fn ask(&self, ask: Ask) -> WebhookAnswer {
        let now_ms = self.clock.now_ms();
        let pass =
            self.memory().enter(now_ms).inspect_err(|error| self.metrics.skipped(&self.rule, error.kind.name()))?;
        let pending = PendingRequest { source: self, pass: Some(pass) };
        let started = Instant::now();
        let answer = self.webhook.ask(&ask, now_ms).await;
        let (outcome, invalid) = match &answer {
            Ok(outcome) => ("ok", outcome.invalid_total),
            Err(error) => (error.kind.name(), 0),
        };
        self.metrics.observe(&self.rule, outcome, started.elapsed(), invalid);
        pending.finish(&answer);
        answer
    }

    /// Returns the current status.
    pub fn status(&self) -> WebhookStatus {
        let (memory, now_ms) = (self.memory(), self.clock.now_ms());
        WebhookStatus {
            last_success_at: memory.last_success_at,
            errors_total: memory.errors_total,
            last_error: memory.last_error.clone(),
            failing_since: memory.failing_since,
            breaker: memory.breaker.state(now_ms),
            next_attempt_at: memory.breaker.next_attempt(now_ms),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // The lock is poisoned if a thread panicked while holding it, but each field is still
        // valid.
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Memory {
    fn enter(&mut self, now_ms: i64) -> Result<Pass, Error> {
        self.breaker.enter(now_ms).map_err(|wait_ms| {
            let last = self.last_error.as_deref().unwrap_or("unknown");
            ErrorKind::BreakerOpen
                .with(format!("not sent after repeated failures; next attempt in {wait_ms} ms; last error: {last}"))
        })
    }

    fn fail(&mut self, error: String, now_ms: i64) {
        self.failing_since.get_or_insert(now_ms);
        self.last_error = Some(error);
    }

    fn note(&mut self, pass: Pass, answer: &WebhookAnswer, now_ms: i64) {
        match answer {
            Ok(outcome) => {
                self.breaker.succeeded();
                match outcome.complaint() {
                    None => (self.last_success_at, self.failing_since) = (Some(now_ms), None),
                    Some(complaint) => self.fail(complaint, now_ms),
                }
            }
            Err(error) => {
                self.breaker.failed(pass, now_ms);
                self.errors_total += 1;
                self.fail(error.text.clone(), now_ms);
            }
        }
    }
}

/// A request in progress. If it is dropped at an await, the breaker stops waiting for its result.
struct PendingRequest<'a> {
    source: &'a WebhookSource,
    pass: Option<Pass>,
}

impl PendingRequest<'_> {
    fn finish(mut self, answer: &WebhookAnswer) {
        if let Some(pass) = self.pass.take() {
            self.source.memory().note(pass, answer, self.source.clock.now_ms());
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.source.memory().breaker.abandoned(pass);
        }
    }
}

impl fmt::Debug for WebhookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.webhook.place();
        f.debug_struct("WebhookSource")
            .field("rule", &self.rule)
            .field("place", &place)
            .field("status", &self.status())
            .finish()
    }
}
