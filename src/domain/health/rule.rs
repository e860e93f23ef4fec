//! Findings about a plan rule.

use super::{Finding, SubjectKind, Urgency};
use crate::domain::plan::Closed;
use crate::domain::words::{counted, duration, per_second};

/// Backlog, in milliseconds of work, from which a rule with an open gate gets a notice.
const LONG_BACKLOG_MS: f64 = 300_000.0;

/// The figures of a rule. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleHealth {
    pub name: String,
    pub now: i64,
    /// Jobs are staged, and no process plans the rule.
    pub is_stalled: bool,
    pub planner_group: String,
    pub staged: u64,
    pub tenants: u64,
    /// Age of the oldest staged job that was examined.
    pub oldest_age: u64,
    /// The reason for which nothing is promoted.
    pub closed: Option<Closed>,
    /// The first of the last rounds in a row that found this reason.
    pub closed_since: Option<i64>,
    /// All tenants that wait are held, or blocked by limits.
    pub is_all_held: bool,
    pub latency: u64,
    pub latency_threshold: u64,
    pub depth: u64,
    pub max_depth: u64,
    /// Jobs that workers took per second.
    pub drain_per_second: f64,
}

impl RuleHealth {
    /// Returns what is wrong. A rule without staged jobs delays nobody.
    pub fn findings(&self) -> Vec<Finding> {
        if self.staged == 0 {
            return Vec::new();
        }
        let found = self.stalled().or_else(|| self.closed_gate()).or_else(|| self.held()).or_else(|| self.backlog());
        found.into_iter().collect()
    }

    fn finding(&self, urgency: Urgency, code: &'static str) -> Finding {
        Finding::new(SubjectKind::Rule, &self.name, urgency, code)
            .with("staged_jobs", self.staged as f64)
            .with("staged_tenants", self.tenants as f64)
            .with("oldest_age_ms", self.oldest_age as f64)
    }

    /// Returns the number of staged jobs and the age of the oldest, for the end of a sentence.
    fn waiting(&self) -> String {
        format!(
            "{} of {} wait, the oldest for {}",
            counted(self.staged, "job"),
            counted(self.tenants, "tenant"),
            duration(self.oldest_age as i64)
        )
    }

    fn stalled(&self) -> Option<Finding> {
        self.is_stalled.then(|| {
            self.finding(Urgency::Critical, "rule_stalled")
                .sentence(format!("no process plans the rule; {}", self.waiting()))
                .next_step(format!(
                    "check that a process with the role planner and planner_group {:?} is running and reaches Redis",
                    self.planner_group
                ))
        })
    }

    fn closed_gate(&self) -> Option<Finding> {
        let lasting = self.closed_since.map_or(String::new(), |since| format!(" for {}", duration(self.now - since)));
        let (urgency, code, sentence, next_step) = match self.closed? {
            Closed::Paused => {
                return Some(
                    self.finding(Urgency::Warning, "rule_paused")
                        .sentence(format!("paused; {}", self.waiting()))
                        .next_step(format!("resume it: POST /ojs/v1/admin/planner/{}/resume", self.name)),
                );
            }
            Closed::Latency if self.drain_per_second <= 0.0 => (
                Urgency::Critical,
                "gate_closed_no_workers",
                format!(
                    "gate closed{lasting}; latency {} exceeds {} and workers take no jobs",
                    duration(self.latency as i64),
                    duration(self.latency_threshold as i64)
                ),
                "check that workers of the main queue are running and fetch from it",
            ),
            Closed::Latency => (
                Urgency::Warning,
                "gate_closed_latency",
                format!(
                    "gate closed{lasting}; latency {} exceeds {} at {}; workers are the bottleneck",
                    duration(self.latency as i64),
                    duration(self.latency_threshold as i64),
                    per_second(self.drain_per_second)
                ),
                "add workers or raise latency_threshold",
            ),
            Closed::Depth => (
                Urgency::Warning,
                "gate_closed_depth",
                format!(
                    "gate closed{lasting}; the main queue holds {}, and max_depth is {}",
                    counted(self.depth, "job"),
                    self.max_depth
                ),
                "add workers or raise max_depth",
            ),
            Closed::QueuePaused => (
                Urgency::Warning,
                "main_queue_paused",
                format!("the main queue is paused{lasting}"),
                "resume the main queue",
            ),
            Closed::Quiet => (
                Urgency::Warning,
                "main_queue_quiet",
                format!("all processes of the main queue are stopping{lasting}"),
                "start new processes, or wait until they are back",
            ),
            Closed::RetryAfter => (
                Urgency::Notice,
                "main_queue_retry_after",
                format!("the main queue asked to be left alone{lasting}"),
                "wait, or ask the operators of the main queue",
            ),
            // Reported for the main queue, with the reason.
            Closed::Unreachable => return None,
        };
        Some(
            self.finding(urgency, code)
                .sentence(format!("{sentence}; {}", self.waiting()))
                .next_step(next_step)
                .since(self.closed_since)
                .with("latency_ms", self.latency as f64)
                .with("latency_threshold_ms", self.latency_threshold as f64)
                .with("depth", self.depth as f64)
                .with("drain_per_s", self.drain_per_second),
        )
    }

    fn held(&self) -> Option<Finding> {
        self.is_all_held.then(|| {
            self.finding(Urgency::Warning, "all_tenants_held")
                .sentence(format!("all waiting tenants have weight 0 or are blocked by limits; {}", self.waiting()))
                .next_step("raise the weights (webhook, static weights or tenant settings), or free the limits")
        })
    }

    /// Returns a notice if the present workers need long for what is staged.
    fn backlog(&self) -> Option<Finding> {
        if self.drain_per_second <= 0.0 {
            return None;
        }
        let backlog_ms = (self.staged + self.depth) as f64 / self.drain_per_second * 1e3;
        (backlog_ms > LONG_BACKLOG_MS).then(|| {
            self.finding(Urgency::Notice, "long_backlog")
                .sentence(format!(
                    "workers need {} for the backlog at {}; {}",
                    duration(backlog_ms as i64),
                    per_second(self.drain_per_second),
                    self.waiting()
                ))
                .next_step("add workers if that is too long; other tenants keep their turns meanwhile")
                .with("backlog_ms", backlog_ms.round())
                .with("drain_per_s", self.drain_per_second)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> RuleHealth {
        RuleHealth {
            name: "reports".to_owned(),
            now: 1_000_000,
            staged: 1200,
            tenants: 3,
            oldest_age: 300_000,
            latency: 92_000,
            latency_threshold: 60_000,
            depth: 500,
            max_depth: 500,
            drain_per_second: 3.0,
            ..RuleHealth::default()
        }
    }

    fn found(facts: &RuleHealth) -> Vec<(&'static str, String)> {
        facts.findings().into_iter().map(|finding| (finding.code, finding.sentence)).collect()
    }

    #[test]
    fn a_closed_gate_names_the_bottleneck() {
        let closed = RuleHealth { closed: Some(Closed::Latency), closed_since: Some(760_000), ..facts() };
        let [finding] = &closed.findings()[..] else { panic!("one finding") };
        assert_eq!(
            finding.sentence,
            "gate closed for 4 min; latency 92 s exceeds 60 s at 3.00/s; workers are the bottleneck; 1,200 jobs of 3 \
             tenants wait, the oldest for 5 min"
        );
        assert_eq!(finding.next_step, "add workers or raise latency_threshold");
        assert_eq!((finding.since, finding.evidence["latency_ms"]), (Some(760_000), 92_000.0));
        let idle = RuleHealth { drain_per_second: 0.0, ..closed };
        assert_eq!((found(&idle)[0].0, idle.findings()[0].urgency), ("gate_closed_no_workers", Urgency::Critical));
    }

    #[test]
    fn each_reason_has_a_finding_and_the_most_urgent_comes_first() {
        for (reason, code) in [
            (Closed::Paused, "rule_paused"),
            (Closed::Depth, "gate_closed_depth"),
            (Closed::QueuePaused, "main_queue_paused"),
            (Closed::Quiet, "main_queue_quiet"),
            (Closed::RetryAfter, "main_queue_retry_after"),
        ] {
            assert_eq!(found(&RuleHealth { closed: Some(reason), ..facts() })[0].0, code);
        }
        let stalled = RuleHealth { is_stalled: true, closed: Some(Closed::Latency), is_all_held: true, ..facts() };
        assert_eq!(found(&stalled).iter().map(|finding| finding.0).collect::<Vec<_>>(), ["rule_stalled"]);
        assert_eq!(found(&RuleHealth { is_all_held: true, ..facts() })[0].0, "all_tenants_held");
    }

    #[test]
    fn a_rule_that_works_is_silent_unless_its_backlog_is_long() {
        assert_eq!(found(&RuleHealth { drain_per_second: 100.0, ..facts() }), []);
        assert_eq!(found(&RuleHealth { drain_per_second: 0.0, ..facts() }), [], "no figure for the work that is left");
        assert_eq!(found(&facts())[0].0, "long_backlog");
        let empty = RuleHealth { staged: 0, closed: Some(Closed::Latency), is_stalled: true, ..facts() };
        assert_eq!(found(&empty), []);
    }
}
