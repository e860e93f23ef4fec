//! Where a rule's weights come from: its webhook behind a circuit breaker, with a memory of how it went.

use super::webhook::Webhook;
use super::{Ask, Breaker, Error, ErrorKind, InvalidUrl, Outcome, Pass, State};
use crate::clock::Clock;
use crate::config::Secret;
use crate::fairness::Rule;
use crate::telemetry::WeightsMetrics;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// The answer to a question: weights, or why there are none.
pub type Answer = Result<Outcome, Error>;

/// The source of one rule's weights.
pub struct Source {
    rule: String,
    webhook: Webhook,
    clock: Clock,
    metrics: WeightsMetrics,
    memory: Mutex<Memory>,
}

/// Written at the end of each question, read by stats.
#[derive(Debug, Default)]
struct Memory {
    breaker: Breaker,
    last_success_at: Option<i64>,
    errors_total: u64,
    last_error: Option<String>,
    failing_since: Option<i64>,
}

/// How a source is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// When the webhook last gave usable weights, in milliseconds since the epoch.
    pub last_success_at: Option<i64>,
    /// Questions that the webhook failed to answer; those that the breaker kept from it do not count.
    pub errors_total: u64,
    /// The last failure; stays after the webhook has recovered.
    pub last_error: Option<String>,
    /// When the first of the failures in a row was seen; none while it works.
    pub failing_since: Option<i64>,
    pub breaker: State,
    /// When it is asked again, while the breaker is open.
    pub next_attempt_at: Option<i64>,
}

impl Source {
    /// What stats and rounds call weights that come from here.
    pub const NAME: &str = "webhook";

    /// The source of a rule; none if the rule has no webhook.
    pub fn new(
        rule: &Rule,
        secret: Option<Secret>,
        http: reqwest::Client,
        clock: Clock,
        metrics: WeightsMetrics,
    ) -> Result<Option<Source>, InvalidUrl> {
        let Some(webhook) = &rule.weights.webhook else { return Ok(None) };
        let webhook = Webhook::new(&rule.name, webhook, secret, http)?;
        let rule = rule.name.clone();
        Ok(Some(Source { rule, webhook, clock, metrics, memory: Mutex::default() }))
    }

    /// Asks what tenants weigh. Ends within the webhook's timeout, and at once while the breaker is open.
    pub async fn ask(&self, ask: Ask) -> Answer {
        let now_ms = self.clock.now_ms();
        let pass =
            self.memory().enter(now_ms).inspect_err(|error| self.metrics.skipped(&self.rule, error.kind.as_str()))?;
        let flight = RoundAttempt { source: self, pass: Some(pass) };
        let started = Instant::now();
        let answer = self.webhook.ask(&ask, now_ms).await;
        let (outcome, invalid) = match &answer {
            Ok(outcome) => ("ok", outcome.invalid_total),
            Err(error) => (error.kind.as_str(), 0),
        };
        self.metrics.observe(&self.rule, outcome, started.elapsed(), invalid);
        flight.land(&answer);
        answer
    }

    /// How it is doing now.
    pub fn status(&self) -> Status {
        let (memory, now_ms) = (self.memory(), self.clock.now_ms());
        Status {
            last_success_at: memory.last_success_at,
            errors_total: memory.errors_total,
            last_error: memory.last_error.clone(),
            failing_since: memory.failing_since,
            breaker: memory.breaker.state(now_ms),
            next_attempt_at: memory.breaker.next_attempt(now_ms),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A poisoned lock means that some thread panicked while it held it; each field is whole all the same.
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Memory {
    fn enter(&mut self, now_ms: i64) -> Result<Pass, Error> {
        self.breaker.enter(now_ms).map_err(|wait_ms| {
            let last = self.last_error.as_deref().unwrap_or("unknown");
            ErrorKind::BreakerOpen
                .with(format!("not asked after repeated failures, next try in {wait_ms} ms; last: {last}"))
        })
    }

    fn fail(&mut self, error: String, now_ms: i64) {
        self.failing_since.get_or_insert(now_ms);
        self.last_error = Some(error);
    }

    fn note(&mut self, pass: Pass, answer: &Answer, now_ms: i64) {
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

/// A question on its way. Its asker may drop it at any await; the breaker must not wait for it then.
struct RoundAttempt<'a> {
    source: &'a Source,
    pass: Option<Pass>,
}

impl RoundAttempt<'_> {
    fn land(mut self, answer: &Answer) {
        if let Some(pass) = self.pass.take() {
            self.source.memory().note(pass, answer, self.source.clock.now_ms());
        }
    }
}

impl Drop for RoundAttempt<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.source.memory().breaker.abandoned(pass);
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.webhook.place();
        f.debug_struct("Source")
            .field("rule", &self.rule)
            .field("place", &place)
            .field("status", &self.status())
            .finish()
    }
}
