//! Metrics for autoscalers: backlogs of rules and queues, and the workers that they need.

use super::Labels;
use super::metrics::{Level, MOST_NAMES};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BacklogName {
    kind: &'static str,
    name: String,
}

/// The backlog of a rule or a queue at the time of a scrape. `None` means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScalingLevel<'a> {
    /// `rule` or `queue`.
    pub kind: &'static str,
    pub name: &'a str,
    pub backlog_jobs: Option<u64>,
    pub backlog_seconds: Option<f64>,
    pub load: Option<f64>,
    pub workers_wanted: Option<u64>,
}

/// Metrics for autoscalers. A number that is unknown has no series.
#[derive(Clone, Default)]
pub struct ScalingMetrics {
    /// Names with series of their own, by kind.
    labels: Arc<Mutex<BTreeMap<&'static str, Labels>>>,
    /// Names that currently have series.
    shown: Arc<Mutex<HashSet<BacklogName>>>,
    jobs: Family<BacklogName, Gauge>,
    seconds: Family<BacklogName, Level>,
    load: Family<BacklogName, Level>,
    wanted: Family<BacklogName, Gauge>,
}

impl ScalingMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let jobs = "Staged jobs, and available jobs in the main queues";
        registry.register("fairgate_autoscale_backlog_jobs", jobs, self.jobs.clone());
        let seconds = "Time that the present workers need for the backlog; missing if it is unknown";
        registry.register("fairgate_autoscale_backlog_seconds", seconds, self.seconds.clone());
        let load = "Used part of the workers' capacity; missing if it is unknown";
        registry.register("fairgate_autoscale_load", load, self.load.clone());
        let wanted = "Workers that keep up with arrivals and clear the backlog in time; missing if unknown";
        registry.register("fairgate_autoscale_workers_wanted", wanted, self.wanted.clone());
    }

    /// Sets the levels of all rules and queues. Removes those that are not listed. Names beyond the
    /// bound have no series, because backlogs of different queues cannot be summed.
    pub fn levels(&self, levels: &[ScalingLevel<'_>]) {
        // A poisoned lock means that another thread panicked while holding it; the sets are
        // consistent nevertheless.
        let mut labels = self.labels.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut now = HashSet::new();
        for level in levels {
            let known = labels.entry(level.kind).or_insert_with(|| Labels::new(MOST_NAMES));
            if known.of(level.name) != level.name {
                continue;
            }
            let name = BacklogName { kind: level.kind, name: level.name.to_owned() };
            self.set(&name, level);
            now.insert(name);
        }
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for gone in shown.difference(&now) {
            self.set(gone, &ScalingLevel::default());
        }
        *shown = now;
    }

    fn set(&self, name: &BacklogName, level: &ScalingLevel<'_>) {
        for (family, number) in [(&self.jobs, level.backlog_jobs), (&self.wanted, level.workers_wanted)] {
            match number {
                Some(number) => _ = family.get_or_create(name).set(number as i64),
                None => _ = family.remove(name),
            }
        }
        for (family, number) in [(&self.seconds, level.backlog_seconds), (&self.load, level.load)] {
            match number {
                Some(number) => _ = family.get_or_create(name).set(number),
                None => _ = family.remove(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Metrics};
    use super::*;

    fn samples(metrics: &Metrics) -> Vec<String> {
        let text = metrics.encode(Format::Text);
        let own = text.lines().filter(|line| line.starts_with("fairgate_autoscale_"));
        let mut lines: Vec<String> = own.map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_number_that_is_unknown_or_gone_has_no_series() {
        let metrics = Metrics::default();
        let level = ScalingLevel { kind: "rule", name: "r", backlog_jobs: Some(7), ..ScalingLevel::default() };
        metrics.scaling.levels(&[ScalingLevel { workers_wanted: Some(2), load: Some(0.5), ..level }]);
        let name = "{kind=\"rule\",name=\"r\"}";
        let expected = [("backlog_jobs", "7"), ("load", "0.5"), ("workers_wanted", "2")];
        let expected = expected.map(|(metric, value)| format!("fairgate_autoscale_{metric}{name} {value}"));
        assert_eq!(samples(&metrics), expected);
        metrics.scaling.levels(&[level]);
        assert_eq!(samples(&metrics), [format!("fairgate_autoscale_backlog_jobs{name} 7")]);
        metrics.scaling.levels(&[]);
        assert_eq!(samples(&metrics), Vec::<String>::new());
    }

    #[test]
    fn names_are_bounded_for_each_kind() {
        let metrics = Metrics::default();
        let names: Vec<String> = (0..MOST_NAMES + 5).map(|number| format!("n{number}")).collect();
        let level = |kind| {
            let level = move |name| ScalingLevel { kind, name, backlog_jobs: Some(1), ..ScalingLevel::default() };
            names.iter().map(move |name| level(name.as_str()))
        };
        metrics.scaling.levels(&level("rule").chain(level("queue")).collect::<Vec<_>>());
        assert_eq!(samples(&metrics).len(), 2 * MOST_NAMES);
    }
}
