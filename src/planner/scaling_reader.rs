//! Reads what is known of backlogs and of the workers that serve them.

use super::scaling_report::{BacklogJobs, ScalingKind, ScalingOptions, ScalingReport};
use super::{RuleStats, RunnerRegistry};
use crate::domain::autoscale::Facts;
use crate::domain::plan::BUILTIN;
use crate::rules::KnownRules;
use crate::store::{Backlogs, Error, QueueBacklog, Store, WorkerGroup};
use std::sync::Arc;

/// The target for a queue, in milliseconds: the default `latency_threshold` of rules.
const QUEUE_TARGET_MS: u64 = 60_000;
/// Number of tenants whose first staged job is read for the age of a queue's backlog.
const SAMPLE: usize = 200;

/// Reads reports. The rules and the workers are those of the moment at which it was created.
pub struct ScalingReader<'a> {
    registry: &'a RunnerRegistry,
    known: Arc<KnownRules>,
    groups: Vec<WorkerGroup>,
    /// False if arrivals and run times are unknown.
    is_counted: bool,
    options: ScalingOptions,
}

/// The workers of a backlog, as far as they are known.
#[derive(Clone, Copy, Default)]
struct KnownWorkers {
    count: Option<u64>,
    slots: Option<u64>,
}

/// The activity of some queues together.
#[derive(Clone, Copy, Default)]
struct Flow {
    active: u64,
    arrivals_per_second: Option<f64>,
    dispatched_per_second: f64,
    run_seconds: Option<f64>,
}

impl Flow {
    fn of(backlogs: &[&QueueBacklog], is_counted: bool) -> Flow {
        let sum = |figure: fn(&QueueBacklog) -> u64| backlogs.iter().map(|queue| figure(queue)).sum::<u64>();
        let per_second = |jobs: u64| jobs as f64 / Store::FLOW_WINDOW.as_secs_f64();
        let (attempts, run_ms) = (sum(|queue| queue.attempts), sum(|queue| queue.run_ms));
        Flow {
            active: sum(|queue| queue.active),
            arrivals_per_second: is_counted.then(|| per_second(sum(|queue| queue.arrived))),
            dispatched_per_second: per_second(sum(|queue| queue.dispatched)),
            run_seconds: (is_counted && attempts > 0).then(|| run_ms as f64 / 1e3 / attempts as f64),
        }
    }
}

impl<'a> ScalingReader<'a> {
    /// Reads the rules and the workers.
    pub async fn open(registry: &'a RunnerRegistry, options: ScalingOptions) -> Result<ScalingReader<'a>, Error> {
        let known = registry.rules().known().await?;
        let groups = registry.store().worker_groups().await?;
        let is_counted = registry.store().count_activity().await?;
        Ok(ScalingReader { registry, known, groups, is_counted, options })
    }

    /// Returns the names of all rules, in their order.
    pub fn rules(&self) -> Vec<&str> {
        self.known.names().collect()
    }

    /// Reads the report of a rule; `None` if there is no such rule.
    pub async fn rule(&self, name: &str) -> Result<Option<ScalingReport>, Error> {
        match RuleStats::read(self.registry, name).await? {
            Some(stats) => Ok(Some(self.of_rule(&stats).await?)),
            None => Ok(None),
        }
    }

    /// Reads the report of a rule whose statistics were read already.
    pub async fn of_rule(&self, stats: &RuleStats) -> Result<ScalingReport, Error> {
        let (rule, status) = (&stats.rule, &stats.status);
        let queues: Vec<&str> = status.queues.iter().map(|queue| queue.queue.as_str()).collect();
        let backlogs = self.registry.store().backlogs(&queues, &[]).await?;
        let read: Vec<&QueueBacklog> = backlogs.queues.iter().collect();
        // Without a queue, it is not known where jobs would arrive.
        let flow = Flow::of(&read, self.is_counted && !queues.is_empty());
        let mut jobs = BacklogJobs { staged: status.staged, ..BacklogJobs::default() };
        let mut facts = Facts {
            oldest_seconds: stats.oldest_age_ms().max(stats.latency_ms()) as f64 / 1e3,
            arrivals_per_second: flow.arrivals_per_second,
            ..self.facts(rule.latency_threshold)
        };
        if rule.is_builtin() {
            jobs.available = read.iter().map(|queue| queue.available).sum();
            jobs.blocked = read.iter().map(|queue| queue.blocked).sum();
            let workers = self.known_workers(&queues);
            (facts.workers, facts.slots, facts.run_seconds) = (workers.count, workers.slots, flow.run_seconds);
            facts.active_jobs = Some(flow.active);
            facts.drain_per_second = (!queues.is_empty()).then_some(flow.dispatched_per_second);
        } else {
            jobs.available = status.queues.iter().map(|queue| queue.depth).sum();
            jobs.undelivered = stats.undelivered;
            // Queues of a Sidekiq usually have the same processes.
            facts.workers = status.queues.iter().filter_map(|queue| queue.processes).max();
            facts.slots = status.queues.iter().filter_map(|queue| queue.slots).max();
            facts.active_jobs = match facts.workers {
                Some(_) => status.queues.iter().map(|queue| queue.active).max(),
                None => Some(status.queues.iter().map(|queue| queue.active).sum()),
            };
            facts.drain_per_second = stats.recent_drain_per_s(Store::FLOW_WINDOW);
        }
        facts.startable_jobs = jobs.startable();
        let is_complete = status.trouble.is_none();
        if !is_complete {
            facts = Facts { startable_jobs: facts.startable_jobs, ..self.facts(rule.latency_threshold) };
        }
        let report = ScalingReport::new(ScalingKind::Rule, &rule.name, jobs, facts);
        Ok(ScalingReport { is_complete, closed: stats.closed(), ..report })
    }

    /// Reads the reports of queues. `names` are those of the caller.
    pub async fn queues(&self, names: &[&str]) -> Result<Vec<ScalingReport>, Error> {
        let store = self.registry.store();
        let stored: Vec<_> = names.iter().map(|name| store.scope().qualified(name)).collect();
        let stored: Vec<&str> = stored.iter().map(|name| &**name).collect();
        let builtin = |name: &&str| self.known.find(name).is_some_and(|rule| rule.main_queue == BUILTIN);
        let rules: Vec<&str> = self.known.names().filter(builtin).collect();
        let backlogs = store.backlogs(&stored, &rules).await?;
        let mut reports = Vec::with_capacity(names.len());
        for ((name, queue), backlog) in names.iter().zip(stored).zip(&backlogs.queues) {
            let oldest_ms = self.oldest_ms(queue, backlog, &backlogs).await?;
            let (flow, workers) = (Flow::of(&[backlog], self.is_counted), self.known_workers(&[queue]));
            let jobs = BacklogJobs {
                staged: backlog.staged.iter().map(|staged| staged.jobs).sum(),
                available: backlog.available,
                blocked: backlog.blocked,
                undelivered: 0,
            };
            let facts = Facts {
                startable_jobs: jobs.startable(),
                oldest_seconds: oldest_ms as f64 / 1e3,
                active_jobs: Some(flow.active),
                workers: workers.count,
                slots: workers.slots,
                arrivals_per_second: flow.arrivals_per_second,
                drain_per_second: Some(flow.dispatched_per_second),
                run_seconds: flow.run_seconds,
                ..self.facts(QUEUE_TARGET_MS)
            };
            reports.push(ScalingReport::new(ScalingKind::Queue, name, jobs, facts));
        }
        Ok(reports)
    }

    /// Returns facts of which only the settings are known.
    fn facts(&self, target_ms: u64) -> Facts {
        Facts {
            slots_per_worker: self.options.slots_per_worker,
            window_seconds: Store::FLOW_WINDOW.as_secs_f64(),
            target_seconds: self.options.target_seconds.map_or(target_ms as f64 / 1e3, |seconds| seconds as f64),
            ..Facts::default()
        }
    }

    /// Returns the age of the oldest job in a queue, or staged for it, in milliseconds.
    async fn oldest_ms(&self, queue: &str, backlog: &QueueBacklog, backlogs: &Backlogs) -> Result<u64, Error> {
        let mut oldest = backlog.oldest;
        for staged in &backlog.staged {
            let tenants = self.registry.store().staged_tenants(&staged.rule, queue, SAMPLE).await?;
            let first = tenants.levels.iter().flat_map(|level| &level.tenants).filter_map(|tenant| tenant.oldest).min();
            oldest = oldest.into_iter().chain(first).min();
        }
        Ok(oldest.map_or(0, |since| u64::try_from(backlogs.now - since).unwrap_or(0)))
    }

    /// Returns the workers that serve one of the queues, by their reports; nothing is known of them
    /// if none reported to serve it.
    fn known_workers(&self, queues: &[&str]) -> KnownWorkers {
        let (mut workers, mut slots) = (0, 0);
        for group in self.groups.iter().filter(|group| self.serves(group, queues)) {
            workers += group.workers;
            slots += group.workers.saturating_mul(group.concurrency.unwrap_or(1).max(1));
        }
        KnownWorkers { count: (workers > 0).then_some(workers), slots: (slots > 0).then_some(slots) }
    }

    fn serves(&self, group: &WorkerGroup, queues: &[&str]) -> bool {
        let serves = |own: &str| queues.contains(&own);
        if let Some(own) = &group.queues {
            return own.iter().any(|queue| serves(queue));
        }
        let pool = group.pool.as_deref().and_then(|pool| self.known.dispatch.policy.pool(pool));
        pool.is_some_and(|pool| pool.queues.iter().any(|place| serves(&place.queue)))
    }
}
