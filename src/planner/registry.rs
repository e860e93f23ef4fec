//! The round runners of this process, one per rule; clones of the registry share them.

use super::gate_reporter::GateReporter;
use super::round_attempt::RoundAttempt;
use super::round_runner::RoundRunner;
use super::weight_sync::WeightSync;
use crate::config::Secret;
use crate::domain::plan::{Closed, Rule};
use crate::main_queue::{MainQueue, MainQueues};
use crate::rules::Rulebook;
use crate::store::{Error, RuleStatus, Store, Why};
use crate::telemetry::{Metrics, ShadowMetrics};
use crate::weights::{self, WebhookSource};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Time for which a requested round waits for a round in another process.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(10);

/// Runs rounds on demand and gives access to round runners.
#[derive(Clone)]
pub struct RunnerRegistry {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    rules: Rulebook,
    main_queues: MainQueues,
    metrics: Metrics,
    holder: Arc<str>,
    /// Created for the first rule with a webhook: most rules have none, and the TLS certificates
    /// take memory.
    http: OnceLock<weights::Client>,
    /// Cancelled when the process stops.
    stopping: CancellationToken,
    round_runners: Mutex<HashMap<String, Entry>>,
}

/// A round runner, and the state that can be read while a round runs.
#[derive(Clone)]
struct Entry {
    rule: Arc<Rule>,
    /// The rulebook version at which the tenants' global weights were read; `changed` is set if
    /// they may have changed since.
    version: Arc<str>,
    changed: Arc<AtomicBool>,
    round_runner: Arc<Mutex<RoundRunner>>,
    /// Kept when the rule changes, so that the opening of a gate is reported to which its closing
    /// belongs.
    gates: Arc<Mutex<GateReporter>>,
}

impl RunnerRegistry {
    /// Creates the registry of a process; `holder` names the process in locks.
    pub fn new(
        store: Store,
        rules: Rulebook,
        main_queues: MainQueues,
        metrics: Metrics,
        holder: &str,
    ) -> RunnerRegistry {
        let (holder, http, stopping, round_runners) =
            (holder.into(), OnceLock::new(), CancellationToken::new(), Mutex::default());
        RunnerRegistry {
            inner: Arc::new(Inner { store, rules, main_queues, metrics, holder, http, stopping, round_runners }),
        }
    }

    /// Returns the plan rules.
    pub fn rules(&self) -> &Rulebook {
        &self.inner.rules
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the main queues that rules can name.
    pub fn main_queues(&self) -> &MainQueues {
        &self.inner.main_queues
    }

    /// Returns the name of this process in locks.
    pub fn holder(&self) -> &str {
        &self.inner.holder
    }

    /// Returns the metrics of rules in shadow.
    pub fn shadow_metrics(&self) -> &ShadowMetrics {
        &self.inner.metrics.shadow
    }

    /// Returns the round runner of a rule in its current version.
    pub(super) async fn round_runner(&self, name: &str) -> Result<Option<Arc<Mutex<RoundRunner>>>, Error> {
        let known = self.inner.rules.known().await?;
        let Some(rule) = known.find(name) else { return Ok(None) };
        let mut round_runners = self.inner.round_runners.lock().await;
        if let Some(entry) = round_runners.get_mut(name).filter(|entry| *entry.rule == *rule) {
            if entry.version != known.version {
                entry.version = Arc::clone(&known.version);
                entry.changed.store(true, Ordering::Relaxed);
            }
            return Ok(Some(Arc::clone(&entry.round_runner)));
        }
        let gates = round_runners.get(name).map(|entry| Arc::clone(&entry.gates)).unwrap_or_default();
        let entry = self.enter(rule, Arc::clone(&known.version), gates)?;
        round_runners.insert(name.to_owned(), entry.clone());
        Ok(Some(entry.round_runner))
    }

    /// Returns the status of a rule, including its main queue. An unreachable main queue counts as
    /// a closed gate.
    pub(super) async fn status(&self, rule: &Rule) -> Result<RuleStatus, Error> {
        self.status_with(rule, rule.queue.as_deref()).await
    }

    /// Like [`RunnerRegistry::status`], with a queue that is included even if no jobs are staged for
    /// it.
    pub(super) async fn status_with(&self, rule: &Rule, queue: Option<&str>) -> Result<RuleStatus, Error> {
        let mut status = self.inner.store.rule_status(&rule.name, queue).await?;
        let observed = match self.main_queue(rule) {
            Ok(main_queue) => main_queue.observe(&mut status.queues, status.now).await,
            Err(error) => Err(error),
        };
        if let Err(error) = observed {
            tracing::debug!(rule = rule.name, %error, "cannot read the main queue");
            status.queues.iter_mut().for_each(|queue| queue.hindrance = Some(Closed::Unreachable));
            status.trouble = Some(error.reason());
        }
        Ok(status)
    }

    fn http(&self) -> Result<weights::Client, Error> {
        if let Some(http) = self.inner.http.get() {
            return Ok(http.clone());
        }
        let http = weights::client_builder().build().map_err(|error| Error::Backend(error.to_string()))?;
        Ok(self.inner.http.get_or_init(|| http).clone())
    }

    /// Returns the main queue of a rule.
    pub fn main_queue(&self, rule: &Rule) -> Result<MainQueue, Error> {
        let named = self.inner.main_queues.get(&rule.main_queue);
        named.ok_or_else(|| {
            Error::Backend(format!(
                "plan rule {:?} promotes into main queue {:?}, which is not configured in this process; add a \
                 [[main_queue]] of that name; the rule's jobs stay in staging until then",
                rule.name, rule.main_queue
            ))
        })
    }

    /// Returns the weight source of a rule, if it has a webhook.
    pub fn source(&self, rule: &Rule) -> Result<Option<Arc<WebhookSource>>, Error> {
        let Some(webhook) = &rule.weights.webhook else { return Ok(None) };
        let secret = webhook.secret_env.as_deref().and_then(|name| std::env::var(name).ok()).map(Secret::new);
        let (clock, metrics) = (self.inner.store.clock().clone(), self.inner.metrics.weights.clone());
        let source = WebhookSource::new(rule, secret, self.http()?, clock, metrics);
        Ok(source.map_err(|error| Error::Backend(error.to_string()))?.map(Arc::new))
    }

    fn enter(&self, rule: Arc<Rule>, version: Arc<str>, gates: Arc<Mutex<GateReporter>>) -> Result<Entry, Error> {
        let (inner, source) = (&self.inner, self.source(&rule)?);
        let (store, holder) = (inner.store.clone(), Arc::clone(&inner.holder));
        let (main_queue, changed) = (self.main_queue(&rule)?, Arc::default());
        let weight_sync = WeightSync::new(source, main_queue.clone(), Arc::clone(&changed), inner.stopping.clone());
        let metrics = inner.metrics.planner.clone();
        let (round_rule, round_gates) = (Arc::clone(&rule), Arc::clone(&gates));
        let round_runner = RoundRunner::new(round_rule, store, main_queue, holder, weight_sync, metrics, round_gates);
        let round_runner = Arc::new(Mutex::new(round_runner.map_err(Error::Backend)?));
        Ok(Entry { rule, version, changed, round_runner, gates })
    }

    /// Runs one round now, regardless of the interval. Returns `None` if there is no such rule.
    pub async fn run(&self, name: &str) -> Result<Option<RoundAttempt>, Error> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let Some(round_runner) = self.round_runner(name).await? else { return Ok(None) };
            let mut round_runner = round_runner.lock().await;
            let attempt = round_runner.round(Why::Run).await?;
            // The process that runs a requested round often is not the one that plans the rule;
            // release the lock so that the planner can take it again at once.
            if let RoundAttempt::Ran { .. } = attempt {
                round_runner.release().await;
            }
            drop(round_runner);
            match attempt {
                _ if tokio::time::Instant::now() >= deadline => return Ok(Some(attempt)),
                RoundAttempt::Elsewhere { .. } => {}
                // A requested round is early only if this process has an outdated schedule, or if
                // the time of a scheduled round passed meanwhile.
                RoundAttempt::Early { .. } => _ = self.inner.rules.reload().await?,
                attempt => return Ok(Some(attempt)),
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Ends waits for weights webhooks, because the process stops.
    pub(super) fn stop(&self) {
        self.inner.stopping.cancel();
    }

    /// Releases all planner locks, so that other processes take over at once.
    pub async fn release(&self) {
        let round_runners: Vec<_> = self.inner.round_runners.lock().await.values().cloned().collect();
        for entry in round_runners {
            entry.round_runner.lock().await.release().await;
        }
    }
}
