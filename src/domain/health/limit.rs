//! Findings about a rate limit.

use super::{Finding, SubjectKind, Urgency};
use crate::domain::words::{counted, duration};

/// The figures of a limit. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitHealth {
    /// The key as people read it.
    pub key: String,
    pub now: i64,
    pub concurrency: Option<u64>,
    pub running: u64,
    /// Available jobs that the limit holds back.
    pub waiting: u64,
    /// Time until which a worker has stopped the limit.
    pub stopped_until: Option<i64>,
    /// Time at which it may have room again, as far as time alone decides that.
    pub free_at: i64,
}

impl LimitHealth {
    /// Returns a finding if the limit holds jobs back. More jobs than a rate allows at once are no
    /// problem as long as the next one may start.
    pub fn findings(&self) -> Vec<Finding> {
        let full = self.concurrency.filter(|most| self.running >= *most);
        if self.waiting == 0 || full.is_none() && self.free_at <= self.now {
            return Vec::new();
        }
        let wait = counted(self.waiting, "job");
        let left = |until: i64| duration(until - self.now);
        let (urgency, code, sentence, next_step) = if self.concurrency == Some(0) {
            let next = "raise its concurrency; 0 lets nothing run";
            (Urgency::Warning, "limit_zero", format!("concurrency is 0; {wait} wait"), next)
        } else if let Some(until) = self.stopped_until.filter(|until| *until > self.now) {
            let sentence = format!("stopped by a worker for another {}; {wait} wait", left(until));
            (Urgency::Notice, "limit_stopped", sentence, "wait, or set the limit again to end the stop")
        } else if let Some(most) = full {
            let sentence = format!("full: {} of {most} slots are taken; {wait} wait", self.running);
            (Urgency::Notice, "limit_full", sentence, "raise the limit, or look at the jobs that hold its slots")
        } else {
            let sentence = format!("the rate is used up for another {}; {wait} wait", left(self.free_at));
            (Urgency::Notice, "limit_rate", sentence, "raise the rate if that is too slow")
        };
        vec![
            Finding::new(SubjectKind::Limit, &self.key, urgency, code)
                .sentence(sentence)
                .next_step(next_step)
                .with("waiting_jobs", self.waiting as f64)
                .with("running_jobs", self.running as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_holds_jobs_back_says_why() {
        let limit = LimitHealth {
            key: "api".into(),
            now: 1000,
            waiting: 3,
            running: 2,
            free_at: 5000,
            ..LimitHealth::default()
        };
        for (concurrency, stopped_until, code, sentence) in [
            (Some(0), None, "limit_zero", "concurrency is 0; 3 jobs wait"),
            (Some(2), None, "limit_full", "full: 2 of 2 slots are taken; 3 jobs wait"),
            (Some(2), Some(9000), "limit_stopped", "stopped by a worker for another 8 s; 3 jobs wait"),
            (Some(9), None, "limit_rate", "the rate is used up for another 4 s; 3 jobs wait"),
            (None, Some(500), "limit_rate", "the rate is used up for another 4 s; 3 jobs wait"),
        ] {
            let finding = LimitHealth { concurrency, stopped_until, ..limit.clone() }.findings().remove(0);
            assert_eq!((finding.code, finding.sentence.as_str()), (code, sentence));
        }
        assert_eq!(LimitHealth { free_at: 1000, ..limit.clone() }.findings(), [], "the next job may start");
        assert_eq!(LimitHealth { waiting: 0, concurrency: Some(0), ..limit }.findings(), []);
    }
}
