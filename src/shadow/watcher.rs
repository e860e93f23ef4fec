//! The simulation of a rule in shadow: watches the queue that the rule would promote into and
//! records what promotion would have done. It only reads that queue.

use super::report::ShadowReport;
use super::weights::{self, ShadowWeights};
use crate::domain::cron::Cron;
use crate::domain::job::sidekiq::{self, Payload};
use crate::domain::plan::{Pace, Rule};
use crate::domain::shadow::{MOST_JOBS, ServedTenant, Shadow, ShadowRound, WatchedJob};
use crate::domain::tenant_id;
use crate::main_queue::{MainQueue, Sidekiq};
use crate::planner::{RoundOutcome, RoundReason, RoundReport, RunnerRegistry, WebhookReporter};
use crate::rules::KnownRules;
use crate::sidekiq::{Finding, KeyMismatch, StagingReporter};
use crate::store::{Error, PromotedTenant, Watched};
use crate::weights::WebhookAnswer;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between readings of the queue, as for main queues that are promoted into.
const LOOK: Duration = Duration::from_millis(100);
/// Interval at which the report is stored for API answers. `TELL` is the interval at which it is
/// logged.
pub(super) const KEEP: Duration = Duration::from_secs(1);
/// Minimum lifetime of a stored report in milliseconds: longer than it takes to store the next one.
const SHORTEST_LIFE: u64 = 4000;
const TELL: Duration = Duration::from_secs(60);
/// Maximum number of jobs per page, and of pages per reading.
const PAGE: usize = 200;
const PAGES: usize = 10;
/// Number of known jobs to read again, so that jobs taken by workers between two calls leave no
/// gap.
const OVERLAP: usize = 16;
/// Number of jobs at the front to search for a known one, because workers that stop put jobs back
/// there.
const RETURNED: usize = 64;
/// Maximum number of simulated rounds recorded per second.
const MOST_ROUNDS: usize = 16;

/// The simulation of one rule in this process.
pub(super) struct ShadowWatcher<'a> {
    registry: &'a RunnerRegistry,
    rule: Arc<Rule>,
    queue: String,
    sidekiq: Arc<Sidekiq>,
    cron: Option<Cron>,
    shadow: Shadow,
    /// The rulebook version at which the tenants' global weights were read.
    version: Arc<str>,
    since: i64,
    /// The time of the last reading in epoch milliseconds; `depth` is the number of waiting jobs
    /// found by it.
    looked: i64,
    depth: u64,
    /// The time of the next scheduled round.
    due: i64,
    rounds: u64,
    promoted: u64,
    /// Simulated rounds that are to be recorded.
    unrecorded: Vec<String>,
    /// The reason for which the queue cannot be read.
    trouble: Option<String>,
    shadow_weights: ShadowWeights,
    reporter: WebhookReporter,
    jobs: StagingReporter,
}

impl<'a> ShadowWatcher<'a> {
    /// Begins to watch. Returns `None` if there is nothing to watch or another process does.
    pub(super) async fn begin(registry: &'a RunnerRegistry, name: &str) -> Result<Option<ShadowWatcher<'a>>, Error> {
        let known = registry.rules().known().await?;
        let Some(rule) = known.rules.get(name).filter(|rule| rule.shadow).cloned() else { return Ok(None) };
        let (MainQueue::Sidekiq(sidekiq), Some(queue)) = (registry.main_queue(&rule)?, rule.queue.clone()) else {
            return Ok(None);
        };
        let cron = match &rule.pace {
            Pace::Every(_) => None,
            Pace::Cron { expression, timezone } => Some(Cron::parse(expression, timezone).map_err(Error::Backend)?),
        };
        let (source, now) = (registry.source(&rule)?, registry.store().clock().now_ms());
        let jobs = StagingReporter::new(registry.store().clone(), &rule.main_queue);
        let mut shadow_watcher = ShadowWatcher {
            registry,
            rule,
            queue,
            sidekiq,
            cron,
            shadow: Shadow::default(),
            version: Arc::clone(&known.version),
            since: now,
            looked: now,
            depth: 0,
            due: 0,
            rounds: 0,
            promoted: 0,
            unrecorded: Vec::new(),
            trouble: None,
            shadow_weights: ShadowWeights::new(source),
            reporter: WebhookReporter::default(),
            jobs,
        };
        Ok((shadow_watcher.keep().await? == Watched::Kept).then_some(shadow_watcher))
    }

    /// Watches until another process takes over or the rule changes. Returns the time to wait
    /// before the next attempt.
    pub(super) async fn run(&mut self) -> Duration {
        let (rule, queue) = (&self.rule.name, &self.queue);
        tracing::info!(
            rule,
            queue,
            main_queue = self.rule.main_queue,
            "watching a queue in shadow; nothing is changed there"
        );
        let (mut keep_at, mut tell_at) = (Instant::now() + KEEP, Instant::now() + TELL);
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look_and_plan().await;
            if Instant::now() >= tell_at {
                self.shadow_report().tell();
                tell_at = Instant::now() + TELL;
            }
            if Instant::now() < keep_at {
                continue;
            }
            keep_at = Instant::now() + KEEP;
            self.shadow_weights.ask(&self.queue, self.rounds, &self.shadow, self.looked);
            self.registry.shadow_metrics().set(&self.rule.name, &self.shadow_report().levels());
            match self.keep().await {
                Ok(Watched::Kept) => {}
                Ok(Watched::Paused | Watched::Gone) => return KEEP,
                Ok(Watched::Elsewhere { by, left_ms }) => {
                    tracing::info!(rule = self.rule.name, by, "another process watches this rule in shadow");
                    return Duration::from_millis(left_ms.max(1));
                }
                // Without the store, reports are delayed; observations continue.
                Err(error) => tracing::debug!(rule = self.rule.name, %error, "cannot store the shadow report"),
            }
            let known = self.registry.rules().now();
            if known.rules.get(&self.rule.name) != Some(&self.rule) {
                return Duration::ZERO;
            }
            if self.version != known.version
                && let Ok(weights) = self.shadow_weights.renew(self.registry.rules(), &self.rule, &self.shadow).await
            {
                weights.iter().for_each(|(tenant, weight)| self.shadow.reweigh(tenant, *weight));
                self.version = Arc::clone(&known.version);
            }
        }
    }

    async fn look_and_plan(&mut self) {
        let looked = self.look().await;
        if let Err(error) = &looked
            && self.trouble.is_none()
        {
            let main_queue = &self.rule.main_queue;
            tracing::warn!(
                rule = self.rule.name,
                main_queue,
                error = error.reason(),
                "cannot read the queue watched in shadow"
            );
        }
        self.trouble = looked.err().map(|error| error.reason());
        let now = self.registry.store().clock().now_ms();
        if let Some(answer) = self.shadow_weights.hear().await {
            self.apply(&answer, now).await;
        }
        self.plan(now);
    }

    /// Applies an answer of the webhook and reports failures.
    async fn apply(&mut self, answer: &WebhookAnswer, now: i64) {
        let fallback = weights::fallback(self.shadow_weights.webhook(now).and_then(|webhook| webhook.age_ms));
        if let Err(error) = self.reporter.report(self.registry.store(), &self.rule, answer, fallback).await {
            tracing::debug!(rule = self.rule.name, %error, "cannot read earlier reports about the weights webhook");
        }
        for (tenant, weight) in answer.iter().flat_map(|outcome| &outcome.weights) {
            self.shadow.reweigh(tenant, *weight);
        }
    }

    /// Reads the changes of the queue: jobs that left the front and jobs that arrived at the end.
    async fn look(&mut self) -> Result<(), Error> {
        let sidekiq = Arc::clone(&self.sidekiq);
        let (redis, queue) = (sidekiq.redis(), self.queue.clone());
        let next = redis.next_payloads(&queue, 0, 1).await?;
        self.depth = redis.depth(&queue).await?;
        let mut front = next.first().and_then(|payload| self.shadow.place(mark(payload)));
        if front.is_none() && !next.is_empty() && !self.shadow.is_empty() {
            let more = redis.next_payloads(&queue, 0, RETURNED).await?;
            front = more.iter().find_map(|payload| self.shadow.place(mark(payload)));
        }
        let now = self.registry.store().clock().now_ms();
        self.shadow.take(front.unwrap_or(self.shadow.len()), self.looked, now);
        self.looked = now;
        for _ in 0..PAGES {
            let have = self.shadow.len();
            let missing = (self.depth as usize).saturating_sub(have).min(PAGE).min(MOST_JOBS.saturating_sub(have));
            if missing == 0 {
                break;
            }
            let overlap = have.min(OVERLAP);
            let page = redis.next_payloads(&queue, have - overlap, overlap + missing).await?;
            let known = self.shadow.newest().map(|newest| page.iter().rposition(|payload| mark(payload) == newest));
            let first_new = match known {
                None => 0,
                Some(Some(place)) => place + 1,
                // Workers take jobs faster than we read: the next reading finds the position again.
                Some(None) => break,
            };
            if !self.arrive(&page[first_new..], now).await? {
                break;
            }
        }
        Ok(())
    }

    /// Adds new jobs. Returns true if there were any.
    async fn arrive(&mut self, payloads: &[String], now: i64) -> Result<bool, Error> {
        let known = self.registry.rules().now();
        let mut findings = Vec::new();
        let seen: Vec<WatchedJob> =
            payloads.iter().map(|payload| self.see(payload, &known, now, &mut findings)).collect();
        for (finding, mismatch) in findings {
            self.jobs.report(&finding, mismatch.as_ref()).await;
        }
        let tenants = seen.iter().filter_map(|seen| seen.tenant.as_deref());
        self.shadow_weights.look_up(self.registry.rules(), &self.rule, tenants).await?;
        for seen in seen {
            let weight = seen.tenant.as_deref().and_then(|tenant| self.shadow_weights.weight(tenant));
            self.shadow.arrive(seen, weight.unwrap_or(self.rule.weights.default_weight));
        }
        Ok(!payloads.is_empty())
    }

    /// Parses a payload; returns it if its class is under this rule.
    fn own<'t>(&self, text: &'t str, known: &KnownRules) -> Option<Payload<'t>> {
        let is_ours = |payload: &Payload<'_>| {
            let rule = known.rules.of_class(&self.rule.main_queue, &payload.class);
            rule.is_some_and(|rule| rule.name == self.rule.name)
        };
        Payload::parse(text).filter(is_ours)
    }

    fn see(
        &self,
        text: &str,
        known: &KnownRules,
        now: i64,
        findings: &mut Vec<(Finding, Option<KeyMismatch>)>,
    ) -> WatchedJob {
        let tenant = self.own(text, known).map(|payload| {
            let owner = self.rule.tenant_key.owner(&payload);
            if owner.is_none() {
                findings.extend(self.jobs.tenant_missing(&self.rule, &payload));
            }
            Arc::from(owner.as_deref().unwrap_or(tenant_id::DEFAULT))
        });
        WatchedJob { mark: mark(text), tenant, since: sidekiq::waits_since(text).unwrap_or(now).min(now) }
    }

    /// Runs a simulated round if one is due.
    fn plan(&mut self, now: i64) {
        let scheduled = now >= self.due;
        if scheduled {
            let next = self.cron.as_ref().map(|cron| cron.next_after(now).unwrap_or(i64::MAX));
            // A cron schedule begins with its next time, an interval at once.
            let is_first = std::mem::replace(
                &mut self.due,
                match (&self.rule.pace, next) {
                    (Pace::Every(ms), _) => now + *ms as i64,
                    (Pace::Cron { .. }, next) => next.unwrap_or(i64::MAX),
                },
            ) == 0;
            if is_first && self.cron.is_some() {
                return;
            }
        }
        let Some(round) = self.shadow.round(&self.rule, now, scheduled) else { return };
        self.rounds += 1;
        self.promoted += round.promoted;
        if self.unrecorded.len() < MOST_ROUNDS && (round.promoted > 0 || scheduled) {
            self.unrecorded.push(self.report(round, now, scheduled).to_json().to_string());
        }
    }

    /// Converts a simulated round to a round report. The round number is assigned when it is
    /// recorded.
    fn report(&self, round: ShadowRound, at: i64, scheduled: bool) -> RoundReport {
        let reason = match (round.gate.closed, round.promoted) {
            (Some(closed), _) => Some(RoundReason::Gate(closed)),
            (None, 0) => Some(if round.batch > 0 { RoundReason::Hold } else { RoundReason::EnoughQueued }),
            (None, _) => None,
        };
        let mut report = RoundReport::new(&self.rule, 0, at, scheduled);
        for ServedTenant { tenant, weight, jobs } in round.served {
            report.served.add(PromotedTenant { tenant: tenant.to_string(), weight, jobs });
        }
        RoundReport {
            outcome: RoundOutcome::Shadow,
            reason,
            latency_ms: round.gate.latency_ms,
            depth: round.depth,
            batch: round.batch,
            promoted: round.promoted,
            webhook: self.shadow_weights.webhook(at),
            drain_per_s: self.shadow.drain_per_s(),
            ..report
        }
    }

    fn shadow_report(&self) -> ShadowReport<'_> {
        ShadowReport {
            rule: &self.rule,
            queue: &self.queue,
            shadow: &self.shadow,
            shadow_weights: &self.shadow_weights,
            since: self.since,
            now: self.looked,
            depth: self.depth,
            rounds: self.rounds,
            promoted: self.promoted,
            trouble: self.trouble.as_deref(),
        }
    }

    async fn keep(&mut self) -> Result<Watched, Error> {
        let (store, holder) = (self.registry.store(), self.registry.holder());
        let document = self.shadow_report().to_json().to_string();
        let life = self.rule.planner_lock_ttl.max(SHORTEST_LIFE);
        let kept = store.keep_shadow(&self.rule.name, holder, life, &document, &self.unrecorded).await?;
        self.unrecorded.clear();
        Ok(kept)
    }
}

/// Returns a mark that identifies a payload. The payload of a job that is retried differs, and so
/// does its mark.
fn mark(payload: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}
