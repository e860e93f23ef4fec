//! Backlogs of queues, and the pace at which their jobs arrive, start and run.

use super::script::BACKLOG;
use super::{Error, Store};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Number of queues that one call reads; bounds how long the call occupies Redis.
const PORTION: usize = 50;

/// The backlog of a queue.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct QueueBacklog {
    /// Available jobs, including those that wait for a limit.
    pub available: u64,
    /// Available jobs that wait for a limit.
    pub blocked: u64,
    pub active: u64,
    /// Time since which the oldest runnable job is available, in milliseconds.
    pub oldest: Option<i64>,
    /// Staged jobs by rule.
    pub staged: Vec<StagedBacklog>,
    /// Jobs handed to workers within the last minute.
    pub dispatched: u64,
    /// Jobs that arrived within the last minute, staged ones included.
    pub arrived: u64,
    /// Attempts that ended within the last ten minutes.
    pub attempts: u64,
    /// Sum of the run times of those attempts, in milliseconds.
    pub run_ms: u64,
}

/// Jobs that a rule has staged for a queue.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StagedBacklog {
    pub rule: String,
    pub jobs: u64,
}

/// The backlogs of several queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backlogs {
    pub now: i64,
    /// In the order of the request.
    pub queues: Vec<QueueBacklog>,
}

#[derive(Serialize)]
struct BacklogArgs<'a> {
    queues: Vec<&'a str>,
    rules: &'a [&'a str],
}

#[derive(Deserialize)]
struct ReadBacklogs {
    now: i64,
    queues: Vec<QueueBacklog>,
}

impl Store {
    /// The period over which dispatches and arrivals are counted.
    pub const FLOW_WINDOW: Duration = Duration::from_secs(60);
    /// The period over which run times are averaged.
    pub const RUN_WINDOW: Duration = Duration::from_secs(600);

    /// Counts the activity since the last call, so that arrivals and run times are current. Returns
    /// false if activity is not recorded: they are unknown then.
    pub async fn count_activity(&self) -> Result<bool, Error> {
        self.sum_activity().await
    }

    /// Returns the backlogs of queues, with the jobs that these rules have staged for them.
    /// `queues` are names in the store.
    pub async fn backlogs(&self, queues: &[&str], rules: &[&str]) -> Result<Backlogs, Error> {
        let mut all = Backlogs::default();
        for portion in queues.chunks(PORTION) {
            let args = BacklogArgs { queues: portion.to_vec(), rules };
            let read: ReadBacklogs = BACKLOG.call_packed(&self.core, &args).await?;
            all.now = read.now;
            all.queues.extend(read.queues);
        }
        Ok(all)
    }
}
