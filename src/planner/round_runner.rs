//! Runs the rounds of one rule under its lock: gate, weights, promotion, report.

use super::drain_rates::DrainRates;
use super::gate_reporter::{GateReporter, QueuesRead};
use super::low_water_poller::LowWaterPoller;
use super::round_attempt::RoundAttempt;
use super::round_state::{RoundState, in_turn};
use super::weight_sync::WeightSync;
use super::{FailureReporter, RoundOutcome, RoundReason, RoundReport};
use crate::domain::cron::Cron;
use crate::domain::plan::{Batch, Closed, LatencyGoal, Pace, Rule};
use crate::main_queue::MainQueue;
use crate::store::{Begun, Ended, Error, Next, Observation, Promoted, QUEUES_A_ROUND, Round, Store, Why};
use crate::telemetry::PlannerMetrics;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Maximum number of jobs that one call promotes, which bounds how long Redis is busy with it.
pub const PORTION: u64 = 50;

/// Plans one rule in this process.
pub struct RoundRunner {
    rule: Arc<Rule>,
    store: Store,
    main_queue: MainQueue,
    /// The name of this process in the lock.
    holder: Arc<str>,
    cron: Option<Cron>,
    /// The store's time at the last contact, in epoch milliseconds. Cron schedules are computed
    /// from it.
    seen: i64,
    drains: DrainRates,
    /// True if the last round could not read all main queues.
    has_many_queues: bool,
    watch: LowWaterPoller,
    weight_sync: WeightSync,
    failures: FailureReporter,
    /// Shared with the runners of other versions of the rule.
    gates: Arc<Mutex<GateReporter>>,
    /// The process that planned the rule at this process' last attempt.
    other_planner: Option<String>,
    metrics: PlannerMetrics,
}

impl RoundRunner {
    /// Creates a runner for the rounds of a rule.
    pub fn new(
        rule: Arc<Rule>,
        store: Store,
        main_queue: MainQueue,
        holder: Arc<str>,
        weight_sync: WeightSync,
        metrics: PlannerMetrics,
        gates: Arc<Mutex<GateReporter>>,
    ) -> Result<RoundRunner, String> {
        let cron = match &rule.pace {
            Pace::Every(_) => None,
            Pace::Cron { expression, timezone } => Some(Cron::parse(expression, timezone)?),
        };
        let latency_ms = rule.target_latency.max(main_queue.least_latency());
        let goal = LatencyGoal { latency_ms, is_polled: main_queue.poll().is_some() };
        let watch = LowWaterPoller::new(main_queue.clone());
        Ok(RoundRunner {
            rule,
            store,
            main_queue,
            holder,
            cron,
            seen: 0,
            drains: DrainRates::new(goal),
            has_many_queues: false,
            watch,
            weight_sync,
            failures: FailureReporter::default(),
            gates,
            other_planner: None,
            metrics,
        })
    }

    /// Runs a round if the lock, the schedule and the rule allow it.
    pub async fn round(&mut self, why: Why) -> Result<RoundAttempt, Error> {
        let started = Instant::now();
        let settled = self.main_queue.settle(&self.rule.name).await;
        let mut round = match self.begin_watching(why).await? {
            Begun::Round(round) => round,
            other => {
                self.report_failure(settled.as_ref().err()).await;
                settled?;
                let mut gates = self.gates.lock().await;
                gates.report_without_round(&self.store, &self.main_queue, &self.rule, &other).await?;
                drop(gates);
                return Ok(self.not_run(other));
            }
        };
        if let Some(previous) = self.other_planner.take() {
            tracing::info!(rule = self.rule.name, previous, "took over planning of a rule");
        }
        self.has_many_queues = round.queues.len() >= QUEUES_A_ROUND;
        let observed = match settled {
            Ok(()) => self.main_queue.observe(&mut round.queues, round.now).await,
            Err(error) => Err(error),
        };
        let report = self.run_locked(&round, observed, why, started).await?;
        self.count(&report);
        self.warn_if_slow(&report);
        Ok(RoundAttempt::Ran { report: Box::new(report), next_ms: u64::try_from(round.due - round.now).unwrap_or(0) })
    }

    fn not_run(&mut self, begun: Begun) -> RoundAttempt {
        match &begun {
            Begun::Held { by, .. } => self.other_planner = Some(by.clone()),
            Begun::Empty => self.watch.set(None),
            _ => {}
        }
        RoundAttempt::not_run(begun)
    }

    /// Returns the poller of the main queue between rounds.
    pub fn watch(&self) -> &LowWaterPoller {
        &self.watch
    }

    /// Begins a round. If the main queue has to be polled and no round has read it yet, begins a
    /// round before its time, because the queue may be low already.
    async fn begin_watching(&mut self, why: Why) -> Result<Begun, Error> {
        match self.begin(why).await? {
            Begun::Early { .. } if self.watch.is_blind() && why == Why::Tick => self.begin(Why::Wake).await,
            begun => Ok(begun),
        }
    }

    /// Makes the next round read a main queue that runs low, if it might not do so otherwise.
    pub async fn prefer(&self, queue: &str) -> Result<(), Error> {
        if self.has_many_queues { self.store.prefer_queue(&self.rule.name, queue).await } else { Ok(()) }
    }

    /// Begins a round. Repeats the call if the next scheduled time has passed since the last
    /// contact with the store.
    async fn begin(&mut self, why: Why) -> Result<Begun, Error> {
        for _ in 0..2 {
            let at = self.cron.as_ref().and_then(|cron| cron.next_after(self.seen));
            let next = at.map(|at| Next { since: self.seen, at });
            let begun = self.store.begin_round(&self.rule, &self.holder, why, next).await?;
            match &begun {
                Begun::Again(now) => self.seen = *now,
                Begun::Early { now, .. } => self.seen = *now,
                Begun::Round(round) => self.seen = round.now,
                _ => {}
            }
            if !matches!(begun, Begun::Again(_)) {
                return Ok(begun);
            }
        }
        Ok(Begun::Again(self.seen))
    }

    /// Runs the round, while a separate future renews the lock.
    async fn run_locked(
        &mut self,
        round: &Round,
        observed: Result<(), Error>,
        why: Why,
        started: Instant,
    ) -> Result<RoundReport, Error> {
        let (store, rule, holder) = (self.store.clone(), Arc::clone(&self.rule), Arc::clone(&self.holder));
        let renewal = async move {
            let third = Duration::from_millis((rule.planner_lock_ttl / 3).max(1));
            loop {
                tokio::time::sleep(third).await;
                // The scripts refuse to promote under a lost lock, so stopping is all there is to
                // do.
                if !store.renew_lock(&rule.name, &holder, rule.planner_lock_ttl).await.unwrap_or(true) {
                    return;
                }
            }
        };
        let mut state = RoundState::new(&self.rule, round, why);
        let outcome = {
            let rounds = async {
                observed?;
                self.promote_all(&mut state, why).await
            };
            tokio::select! {
                outcome = rounds => Some(outcome),
                () = renewal => None,
            }
        };
        state.lost |= outcome.is_none();
        // Record the promoted jobs, whatever went wrong.
        let failure = outcome.and_then(Result::err);
        if let Some(error) = &failure {
            let reason = if self.rule.is_builtin() { RoundReason::Store } else { RoundReason::MainQueue };
            (state.report.outcome, state.report.reason) = (RoundOutcome::Failed, Some(reason));
            state.report.error = Some(error.reason());
        }
        self.report_failure(failure.as_ref()).await;
        self.finish(state, started).await
    }

    /// Reports a failure or a recovery. Failures of the built-in queue are only logged, because
    /// events are in the same store.
    async fn report_failure(&mut self, failure: Option<&Error>) {
        if !self.rule.is_builtin() {
            return self.failures.main_queue(&self.store, &self.rule.name, &self.rule.main_queue, failure).await;
        }
        if let Some(error) = failure {
            tracing::warn!(rule = self.rule.name, %error, "round failed");
        }
    }

    async fn promote_all(&mut self, state: &mut RoundState<'_>, why: Why) -> Result<(), Error> {
        let round = state.round;
        self.weight_sync.refresh(&self.store, &self.rule, round).await?;
        let mut promoted = self.promote_each(state, &round.queues, round.now, why).await?;
        // Tenants of unknown weight follow after the webhook's answers, several hundred with each.
        while state.lacks_known && state.left > 0 && !state.lost {
            let waited = self.weight_sync.refresh_unknown(&self.store, &self.rule, round, promoted).await?;
            let Some((now, queues)) = waited else { break };
            promoted = self.promote_each(state, &queues, now, why).await?;
        }
        if state.lost {
            return Ok(());
        }
        self.weight_sync.settle(&self.store, &self.rule, round).await
    }

    /// Promotes as many jobs as the main queues accept, according to their state at `now`. Returns
    /// the number of jobs.
    async fn promote_each(
        &mut self,
        state: &mut RoundState<'_>,
        queues: &[Observation],
        now: i64,
        why: Why,
    ) -> Result<u64, Error> {
        let before = state.report.promoted;
        (state.report.batch, state.lacks_known) = (before, false);
        for (queue, sharers) in in_turn(queues, state.round.number) {
            state.held &= !queue.is_wanted();
            self.promote(state, queue, sharers, now, why).await?;
        }
        Ok(state.report.promoted - before)
    }

    /// Promotes as many jobs as one main queue accepts. A fixed batch is shared with the queues
    /// that follow.
    async fn promote(
        &mut self,
        state: &mut RoundState<'_>,
        queue: &Observation,
        sharers: u64,
        now: i64,
        why: Why,
    ) -> Result<(), Error> {
        let gate = queue.gate(&self.rule, now);
        self.gates.lock().await.observe(&self.store, &self.rule.name, &queue.queue, gate.closed, now).await;
        state.report.latency_ms = state.report.latency_ms.max(gate.latency_ms);
        let (wanted, mark) = self.drains.size(&self.rule, queue, state.left.div_ceil(sharers), why);
        state.marks.retain(|earlier| earlier.queue != mark.queue);
        state.marks.push(mark);
        if let Some(closed) = gate.closed {
            state.report.reason = state.report.reason.or(Some(RoundReason::Gate(closed)));
            return Ok(());
        }
        let mut want = wanted.min(gate.room).min(queue.staged);
        state.report.batch += want;
        let before = state.report.promoted;
        while want > 0 && !state.lost {
            let portion = want.min(PORTION);
            match self.main_queue.promote(&self.rule.name, &state.round.token, &queue.queue, portion).await? {
                Promoted::Jobs { promoted, tenants, more, .. } => {
                    state.report.promoted += promoted;
                    if promoted == 0 {
                        state.report.reason = Some(RoundReason::Hold);
                    }
                    tenants.into_iter().for_each(|served| state.report.served.add(served));
                    state.left = state.left.saturating_sub(promoted);
                    // A short portion means that no tenant with a known weight is left.
                    state.lacks_known |= promoted < portion && !more && queue.unknown_tenants > 0;
                    want = if promoted < portion && !more { 0 } else { want - promoted };
                }
                Promoted::Lost => state.lost = true,
                Promoted::Closed(closed) => {
                    state.report.reason = Some(RoundReason::Gate(closed));
                    want = 0;
                }
                Promoted::Paused => {
                    state.report.reason = Some(RoundReason::Gate(Closed::Paused));
                    want = 0;
                }
            }
        }
        let is_aim_reached = state.report.promoted - before == wanted;
        self.drains.end_round(&queue.queue, is_aim_reached && wanted < queue.staged);
        Ok(())
    }

    /// Reads main queues that do not report by themselves. Returns true if one has run low.
    pub async fn runs_low(&mut self) -> bool {
        let mut is_low = false;
        for (queue, mark) in self.watch.look().await {
            let is_new = self.drains.observe(&queue);
            let low = match self.rule.batch {
                Batch::Jobs(_) => mark,
                Batch::Auto => self.drains.aim(&queue.queue).low,
            };
            is_low |= is_new && queue.depth < low && queue.hindrance.is_none();
        }
        is_low
    }

    async fn finish(&mut self, state: RoundState<'_>, started: Instant) -> Result<RoundReport, Error> {
        let round = state.round;
        let is_read = |name: &str| round.queues.iter().any(|queue| queue.queue == name);
        self.gates.lock().await.keep(is_read, if self.has_many_queues { QueuesRead::Some } else { QueuesRead::All });
        let (mut report, marks) = state.end();
        self.watch.set(Some(&marks));
        report.webhook = self.weight_sync.webhook(&self.store, &self.rule, round.now);
        report.drain_per_s = self.drains.rate(round.queues.iter().map(|queue| queue.queue.as_str()));
        report.duration_ms = started.elapsed().as_secs_f64() * 1e3;
        let skipped = report.outcome == RoundOutcome::Skipped;
        let document = report.to_json().to_string();
        let ended = Ended { document, promoted: report.promoted, skipped, marks };
        if !self.store.end_round(&self.rule.name, &round.token, round.number, &ended).await? {
            report.outcome = RoundOutcome::LostLock;
        }
        self.weight_sync.note(round.now, report.served.served());
        Ok(report)
    }

    fn count(&self, report: &RoundReport) {
        let name = &self.rule.name;
        self.metrics.round(name, report.outcome.name(), report.reason.map(RoundReason::name), report.duration_ms / 1e3);
        report.served.served().iter().for_each(|served| self.metrics.promoted(name, &served.tenant, served.jobs));
    }

    fn warn_if_slow(&self, report: &RoundReport) {
        let interval = match self.rule.pace {
            Pace::Every(ms) => ms,
            Pace::Cron { .. } => u64::MAX,
        };
        let bound = interval.min(self.rule.planner_lock_ttl / 2) as f64;
        if report.duration_ms > bound {
            self.metrics.slow(&self.rule.name);
            let slow_part = self.weight_sync.slow_part(report.duration_ms);
            tracing::warn!(
                rule = self.rule.name,
                duration_ms = report.duration_ms,
                slow_part,
                "round took longer than its interval or half of planner_lock_ttl"
            );
        }
    }

    /// Releases the lock, so that other processes do not have to wait until it expires.
    pub async fn release(&self) {
        _ = self.store.renew_lock(&self.rule.name, &self.holder, 0).await;
    }
}
