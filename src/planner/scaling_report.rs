//! The backlog of a rule or a queue, with a recommendation for the number of its workers.

use crate::domain::autoscale::{Facts, Recommendation};
use crate::domain::plan::Closed;

/// The kind of thing that has a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingKind {
    /// A plan rule: its staged jobs, and all jobs in its main queues.
    Rule,
    /// One of fairgate's own queues, with the jobs that rules have staged for it.
    Queue,
}

impl ScalingKind {
    /// All names, in the order in which a name is looked up.
    pub const NAMES: [&'static str; 2] = ["rule", "queue"];

    /// Parses a name.
    pub fn from_name(name: &str) -> Option<ScalingKind> {
        [ScalingKind::Rule, ScalingKind::Queue].into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name used in API answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ScalingKind::Rule => ScalingKind::NAMES[0],
            ScalingKind::Queue => ScalingKind::NAMES[1],
        }
    }
}

/// Settings of a report that its reader chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScalingOptions {
    /// The time within which the backlog should be worked off; by default the rule's
    /// `latency_threshold`, and for a queue a minute.
    pub target_seconds: Option<u64>,
    /// Number of jobs that one worker runs at the same time.
    pub slots_per_worker: Option<u64>,
}

/// The jobs of a backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogJobs {
    pub staged: u64,
    /// Available jobs in the main queues, including blocked ones.
    pub available: u64,
    /// Available jobs that wait for a limit.
    pub blocked: u64,
    /// Promoted jobs on their way to a main queue in another system.
    pub undelivered: u64,
}

impl BacklogJobs {
    /// Returns the number of all jobs of the backlog.
    pub fn total(&self) -> u64 {
        self.staged + self.available + self.undelivered
    }

    /// Returns the number of jobs that more workers could start.
    pub fn startable(&self) -> u64 {
        self.total().saturating_sub(self.blocked)
    }
}

/// The report.
#[derive(Clone, Debug)]
pub struct ScalingReport {
    pub kind: ScalingKind,
    pub name: String,
    pub jobs: BacklogJobs,
    /// True if the main queues could be read. Otherwise only staged jobs are known.
    pub is_complete: bool,
    /// The reason why rounds promote nothing, if they do not.
    pub closed: Option<Closed>,
    pub facts: Facts,
    pub advice: Recommendation,
}

impl ScalingReport {
    /// Creates a report from its parts. If the main queues could not be read, it recommends nothing.
    pub(super) fn new(kind: ScalingKind, name: &str, jobs: BacklogJobs, facts: Facts) -> ScalingReport {
        let (name, advice) = (name.to_owned(), facts.recommend());
        ScalingReport { kind, name, jobs, is_complete: true, closed: None, facts, advice }
    }

    /// Returns the number of jobs in the backlog, if it is known.
    pub fn backlog_jobs(&self) -> Option<u64> {
        self.is_complete.then(|| self.jobs.total())
    }

    /// Returns the age of the oldest job of the backlog, if it is known.
    pub fn oldest_seconds(&self) -> Option<f64> {
        self.is_complete.then_some(self.facts.oldest_seconds)
    }
}
