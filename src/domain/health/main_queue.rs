//! Findings about a main queue in another system.

use super::{Finding, SubjectKind, Urgency};
use crate::domain::words::counted;

/// The state of a rule's main queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MainQueueHealth {
    pub name: String,
    pub rule: String,
    /// The present problem, in words.
    pub trouble: Option<String>,
    /// Promoted jobs that have not arrived.
    pub undelivered: u64,
    pub staged: u64,
}

impl MainQueueHealth {
    pub fn findings(&self) -> Vec<Finding> {
        let Some(trouble) = self.trouble.as_ref().filter(|_| self.staged > 0 || self.undelivered > 0) else {
            return Vec::new();
        };
        vec![
            Finding::new(SubjectKind::MainQueue, &self.name, Urgency::Critical, "main_queue_trouble")
                .sentence(format!(
                    "rule {:?} cannot promote: {trouble}; {} staged, {} under way",
                    self.rule,
                    counted(self.staged, "job"),
                    counted(self.undelivered, "job")
                ))
                .next_step("check that the main queue is running and reachable: `fairgate doctor` looks at it")
                .with("staged_jobs", self.staged as f64)
                .with("undelivered_jobs", self.undelivered as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_counts_only_while_jobs_depend_on_it() {
        let trouble = Some("connection refused".to_owned());
        let facts =
            MainQueueHealth { name: "legacy".into(), rule: "reports".into(), trouble, undelivered: 0, staged: 12 };
        assert_eq!(
            facts.findings()[0].sentence,
            "rule \"reports\" cannot promote: connection refused; 12 jobs staged, 0 jobs under way"
        );
        assert_eq!(MainQueueHealth { staged: 0, ..facts.clone() }.findings(), []);
        assert_eq!(MainQueueHealth { trouble: None, ..facts }.findings(), []);
    }
}
