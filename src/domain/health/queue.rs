//! Findings about one of fairgate's own queues.

use super::{Finding, SubjectKind, Urgency};
use crate::domain::words::{counted, duration};

/// Age of the oldest runnable job from which a queue without fetches is reported.
const LONG_WAIT_MS: u64 = 60_000;
/// Ended jobs in a minute from which the share of discarded ones is judged.
const ENOUGH_ENDED: u64 = 20;

/// The figures of a queue. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueHealth {
    pub name: String,
    pub now: i64,
    pub paused_since: Option<i64>,
    pub available: u64,
    pub active: u64,
    /// Age of the oldest job that may run; `None` if no job may.
    pub oldest_age: Option<u64>,
    /// Jobs handed to workers in the last minute.
    pub started_per_minute: u64,
    /// Jobs that succeeded, and jobs that failed for good, in the last minute; `None` if unknown.
    pub completed_per_minute: Option<u64>,
    pub discarded_per_minute: Option<u64>,
}

impl QueueHealth {
    pub fn findings(&self) -> Vec<Finding> {
        let waiting = self.paused().or_else(|| self.not_fetched());
        waiting.into_iter().chain(self.failing()).collect()
    }

    fn finding(&self, urgency: Urgency, code: &'static str) -> Finding {
        Finding::new(SubjectKind::Queue, &self.name, urgency, code)
            .with("available_jobs", self.available as f64)
            .with("active_jobs", self.active as f64)
    }

    fn paused(&self) -> Option<Finding> {
        let since = self.paused_since.filter(|_| self.available > 0)?;
        let paused = duration(self.now - since);
        Some(
            self.finding(Urgency::Warning, "queue_paused")
                .sentence(format!("paused for {paused}; {} wait", counted(self.available, "job")))
                .next_step(format!("resume it: POST /ojs/v1/queues/{}/resume", self.name))
                .since(Some(since)),
        )
    }

    /// Returns a finding if jobs could run and no worker took one for a minute.
    fn not_fetched(&self) -> Option<Finding> {
        let age = self.oldest_age.filter(|age| *age >= LONG_WAIT_MS && self.started_per_minute == 0)?;
        let (sentence, next_step) = match self.active {
            0 => ("nobody fetches from it", "start workers that fetch from this queue, or check their queue names"),
            _ => (
                "all its workers are busy with long jobs, or none fetches any more",
                "add workers, or look at the active jobs",
            ),
        };
        Some(
            self.finding(Urgency::Critical, "queue_not_fetched")
                .sentence(format!(
                    "{sentence}: no job was taken in the last minute, {} wait, the oldest for {}, {} active",
                    counted(self.available, "job"),
                    duration(age as i64),
                    self.active
                ))
                .next_step(next_step)
                .since(Some(self.now - age as i64))
                .with("oldest_age_ms", age as f64),
        )
    }

    fn failing(&self) -> Option<Finding> {
        let (completed, discarded) = self.completed_per_minute.zip(self.discarded_per_minute)?;
        let ended = completed + discarded;
        (ended >= ENOUGH_ENDED && discarded * 2 > ended).then(|| {
            self.finding(Urgency::Warning, "jobs_fail")
                .sentence(format!(
                    "{discarded} of {} that ended in the last minute failed for good",
                    counted(ended, "job")
                ))
                .next_step("look at the errors of the last discarded jobs, and retry them once the cause is gone")
                .with("ended_per_minute", ended as f64)
                .with("discarded_per_minute", discarded as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> QueueHealth {
        let (available, oldest_age) = (40, Some(90_000));
        QueueHealth { name: "email".to_owned(), now: 1_000_000, available, oldest_age, ..QueueHealth::default() }
    }

    fn codes(facts: &QueueHealth) -> Vec<&'static str> {
        facts.findings().iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_queue_that_nobody_fetches_from_is_critical() {
        assert_eq!(
            facts().findings()[0].sentence,
            "nobody fetches from it: no job was taken in the last minute, 40 jobs wait, the oldest for 90 s, 0 active"
        );
        assert_eq!(codes(&QueueHealth { started_per_minute: 1, ..facts() }), [""; 0]);
        assert_eq!(codes(&QueueHealth { oldest_age: Some(59_999), ..facts() }), [""; 0]);
        assert_eq!(codes(&QueueHealth { oldest_age: None, ..facts() }), [""; 0], "no job may run");
    }

    #[test]
    fn a_pause_counts_while_jobs_wait() {
        let paused = QueueHealth { paused_since: Some(700_000), ..facts() };
        assert_eq!(paused.findings()[0].sentence, "paused for 5 min; 40 jobs wait");
        assert_eq!(codes(&QueueHealth { available: 0, oldest_age: None, ..paused }), [""; 0]);
    }

    #[test]
    fn failures_count_if_enough_jobs_ended() {
        let failing = |completed, discarded| QueueHealth {
            available: 0,
            oldest_age: None,
            completed_per_minute: Some(completed),
            discarded_per_minute: Some(discarded),
            ..facts()
        };
        assert_eq!(codes(&failing(9, 11)), ["jobs_fail"]);
        assert_eq!(codes(&failing(10, 10)), [""; 0]);
        assert_eq!(codes(&failing(0, 19)), [""; 0]);
    }
}
