//! Where a rule's weights come from: its webhook behind a circuit breaker, with a memory of how it went.

use super::webhook::Webhook;
use super::{Ask, Breaker, Error, ErrorKind, InvalidUrl, Outcome, Pass, State};
use crate::clock::Clock;
use crate::config::Secret;
use crate::fair::Rule;
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
}

/// How a source is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// When the webhook last gave usable weights, in milliseconds since the epoch.
    pub last_success_at: Option<i64>,
    /// Questions that the webhook failed to answer; those that the breaker kept from it do not count.
    pub errors_total: u64,
    pub last_error: Option<String>,
    pub breaker: State,
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
        let flight = Flight { source: self, pass: Some(pass) };
        let started = Instant::now();
        let answer = self.webhook.ask(&ask, now_ms).await;
        let (outcome, refused) = match &answer {
            Ok(outcome) => ("ok", outcome.refused_total),
            Err(error) => (error.kind.as_str(), 0),
        };
        self.metrics.observe(&self.rule, outcome, started.elapsed(), refused);
        flight.land(&answer);
        answer
    }

    /// How it is doing now.
    pub fn status(&self) -> Status {
        let memory = self.memory();
        Status {
            last_success_at: memory.last_success_at,
            errors_total: memory.errors_total,
            last_error: memory.last_error.clone(),
            breaker: memory.breaker.state(self.clock.now_ms()),
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

    fn note(&mut self, pass: Pass, answer: &Answer, now_ms: i64) {
        match answer {
            Ok(outcome) => {
                self.breaker.succeeded();
                if outcome.is_usable() {
                    self.last_success_at = Some(now_ms);
                }
            }
            Err(error) => {
                self.breaker.failed(pass, now_ms);
                self.errors_total += 1;
                self.last_error = Some(error.text.clone());
            }
        }
    }
}

/// A question on its way. Its asker may drop it at any await; the breaker must not wait for it then.
struct Flight<'a> {
    source: &'a Source,
    pass: Option<Pass>,
}

impl Flight<'_> {
    fn land(mut self, answer: &Answer) {
        if let Some(pass) = self.pass.take() {
            self.source.memory().note(pass, answer, self.source.clock.now_ms());
        }
    }
}

impl Drop for Flight<'_> {
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
