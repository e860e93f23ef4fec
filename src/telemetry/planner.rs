//! Metrics of the planner: rounds by rule, and promotions by tenant.

use super::metrics::{Histograms, LATENCIES, Level, MOST_NAMES};
use super::tenants::{MOST_PAIRS, MOST_TENANTS};
use super::{LabelPairs, Labels};
use crate::domain::plan::Closed;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleName {
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RoundEnd {
    rule: String,
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GateClosed {
    rule: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TenantName {
    rule: String,
    tenant: String,
}

/// Metrics of the planner.
#[derive(Clone)]
pub struct PlannerMetrics {
    labels: Arc<(Labels, Labels, LabelPairs)>,
    /// Rules that currently have levels.
    shown: Arc<Mutex<HashSet<RuleName>>>,
    rounds: Family<RoundEnd, Counter>,
    seconds: Histograms<RuleName>,
    slow: Family<RuleName, Counter>,
    promoted: Family<TenantName, Counter>,
    staged: Family<RuleName, Gauge>,
    tenants: Family<RuleName, Gauge>,
    oldest: Family<RuleName, Level>,
    latency: Family<RuleName, Level>,
    threshold: Family<RuleName, Level>,
    depth: Family<RuleName, Gauge>,
    drain: Family<RuleName, Level>,
    open: Family<RuleName, Gauge>,
    closed: Family<GateClosed, Gauge>,
    stalled: Family<RuleName, Gauge>,
    wasted: Family<RuleName, Level>,
    jain: Family<RuleName, Level>,
}

impl Default for PlannerMetrics {
    fn default() -> Self {
        PlannerMetrics {
            labels: Arc::new((Labels::new(MOST_NAMES), Labels::new(MOST_TENANTS), LabelPairs::new(MOST_PAIRS))),
            shown: Arc::default(),
            rounds: Family::default(),
            seconds: Histograms::new_with_constructor(|| Histogram::new(LATENCIES)),
            slow: Family::default(),
            promoted: Family::default(),
            staged: Family::default(),
            tenants: Family::default(),
            oldest: Family::default(),
            latency: Family::default(),
            threshold: Family::default(),
            depth: Family::default(),
            drain: Family::default(),
            open: Family::default(),
            closed: Family::default(),
            stalled: Family::default(),
            wasted: Family::default(),
            jain: Family::default(),
        }
    }
}

/// Levels of a rule at the time of a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleLevels {
    pub staged: u64,
    pub tenants: u64,
    pub oldest_seconds: f64,
    pub latency_seconds: f64,
    /// The latency above which the gate closes.
    pub latency_threshold_seconds: f64,
    pub depth: u64,
    pub drain_per_second: f64,
    /// The reason why rounds promote nothing, if they do not.
    pub closed: Option<Closed>,
    /// True if jobs are staged and no process plans the rule.
    pub stalled: bool,
    pub wasted_seconds: f64,
    pub jain_index: f64,
}

impl PlannerMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "fairgate_planner_rounds",
            "Rounds of this process, by outcome and reason",
            self.rounds.clone(),
        );
        registry.register("fairgate_planner_round_seconds", "Time that a round took", self.seconds.clone());
        registry.register("fairgate_planner_slow_rounds", "Rounds longer than their interval", self.slow.clone());
        registry.register(
            "fairgate_planner_promoted",
            "Jobs promoted by this process, by tenant",
            self.promoted.clone(),
        );
        registry.register("fairgate_staged_jobs", "Jobs in staging", self.staged.clone());
        registry.register("fairgate_staged_tenants", "Tenants with jobs in staging", self.tenants.clone());
        registry.register("fairgate_staged_oldest_seconds", "Age of the oldest staged job", self.oldest.clone());
        registry.register(
            "fairgate_main_queue_latency_seconds",
            "Age of the oldest runnable job in the main queue",
            self.latency.clone(),
        );
        registry.register(
            "fairgate_gate_latency_threshold_seconds",
            "Latency of the main queue above which the gate closes",
            self.threshold.clone(),
        );
        registry.register("fairgate_main_queue_depth", "Runnable jobs in the main queue", self.depth.clone());
        registry.register(
            "fairgate_main_queue_drain_per_second",
            "Jobs per second that workers take",
            self.drain.clone(),
        );
        registry.register("fairgate_gate_open", "1 if rounds may promote, 0 if the gate is closed", self.open.clone());
        registry.register(
            "fairgate_gate_closed",
            "1 with the reason why rounds promote nothing; missing while the gate is open",
            self.closed.clone(),
        );
        registry.register(
            "fairgate_rule_stalled",
            "1 if jobs are staged and no process plans the rule, else 0",
            self.stalled.clone(),
        );
        registry.register(
            "fairgate_idle_worker_seconds",
            "Time in which workers were idle although jobs were staged",
            self.wasted.clone(),
        );
        registry.register(
            "fairgate_fairness_jain_index",
            "Jain's fairness index; 1 is perfectly fair",
            self.jain.clone(),
        );
    }

    fn rule(&self, rule: &str) -> RuleName {
        RuleName { rule: self.labels.0.of(rule).to_owned() }
    }

    /// Records a round.
    pub fn round(&self, rule: &str, outcome: &'static str, reason: Option<&'static str>, seconds: f64) {
        let RuleName { rule } = self.rule(rule);
        self.seconds.get_or_create(&RuleName { rule: rule.clone() }).observe(seconds);
        self.rounds.get_or_create(&RoundEnd { rule, outcome, reason: reason.unwrap_or("") }).inc();
    }

    /// Counts promoted jobs of a tenant.
    pub fn promoted(&self, rule: &str, tenant: &str, jobs: u64) {
        let rule = self.labels.0.of(rule);
        let tenant = self.labels.2.of(rule, self.labels.1.of(tenant));
        self.promoted.get_or_create(&TenantName { rule: rule.to_owned(), tenant: tenant.to_owned() }).inc_by(jobs);
    }

    /// Counts a round that took longer than its interval.
    pub fn slow(&self, rule: &str) {
        self.slow.get_or_create(&self.rule(rule)).inc();
    }

    /// Sets the levels of all rules. Removes those of rules that are not listed.
    pub fn levels<'a>(&self, rules: impl IntoIterator<Item = (&'a str, RuleLevels)>) {
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let gone = std::mem::take(&mut *shown);
        for (rule, levels) in rules {
            let name = self.rule(rule);
            self.set(&name, levels);
            shown.insert(name);
        }
        gone.difference(&shown).for_each(|name| self.forget(name));
    }

    fn forget(&self, name: &RuleName) {
        for counts in [&self.staged, &self.tenants, &self.depth, &self.open, &self.stalled] {
            counts.remove(name);
        }
        self.set_closed(name, None);
        for levels in [&self.oldest, &self.latency, &self.threshold, &self.drain, &self.wasted, &self.jain] {
            levels.remove(name);
        }
    }

    fn set(&self, name: &RuleName, levels: RuleLevels) {
        self.staged.get_or_create(name).set(levels.staged as i64);
        self.tenants.get_or_create(name).set(levels.tenants as i64);
        self.oldest.get_or_create(name).set(levels.oldest_seconds);
        self.latency.get_or_create(name).set(levels.latency_seconds);
        self.threshold.get_or_create(name).set(levels.latency_threshold_seconds);
        self.depth.get_or_create(name).set(levels.depth as i64);
        self.drain.get_or_create(name).set(levels.drain_per_second);
        self.open.get_or_create(name).set(i64::from(levels.closed.is_none()));
        self.set_closed(name, levels.closed);
        self.stalled.get_or_create(name).set(i64::from(levels.stalled));
        self.wasted.get_or_create(name).set(levels.wasted_seconds);
        self.jain.get_or_create(name).set(levels.jain_index);
    }

    /// Sets the series of one reason, and removes those of all others.
    fn set_closed(&self, name: &RuleName, closed: Option<Closed>) {
        for reason in Closed::ALL {
            let series = GateClosed { rule: name.rule.clone(), reason: reason.name() };
            match closed == Some(reason) {
                true => _ = self.closed.get_or_create(&series).set(1),
                false => _ = self.closed.remove(&series),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Metrics};
    use super::*;

    #[test]
    fn a_gate_has_a_series_only_for_the_reason_for_which_it_is_closed() {
        let metrics = Metrics::default();
        let series = |closed: Option<Option<Closed>>| {
            let levels = closed.map(|closed| ("r", RuleLevels { closed, ..RuleLevels::default() }));
            metrics.planner.levels(levels);
            let text = metrics.encode(Format::Text);
            let own = text.lines().filter(|line| line.starts_with("fairgate_gate_closed{"));
            own.map(str::to_owned).collect::<Vec<_>>()
        };
        let expected = |reason| [format!("fairgate_gate_closed{{rule=\"r\",reason=\"{reason}\"}} 1")];
        assert_eq!(series(Some(Some(Closed::Depth))), expected("depth"));
        assert_eq!(series(Some(Some(Closed::Unreachable))), expected("unreachable"));
        assert_eq!(series(Some(None)), [""; 0]);
        assert_eq!(series(Some(Some(Closed::Paused))), expected("paused"));
        assert_eq!(series(None), [""; 0], "the rule is gone");
    }
}
