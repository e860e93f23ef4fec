//! Workers that get jobs, grouped by what they reported about themselves.

use super::script::WORKER_GROUPS;
use super::{Error, Store};
use crate::domain::json;
use serde::{Deserialize, Serialize};

/// Number of workers that one call reads; bounds how long the call occupies Redis.
const PORTION: usize = 500;
/// Largest number of workers that are read, most recent ones first.
const MOST_WORKERS: usize = 10_000;

/// Workers with the same queues, pool and concurrency. Names are those in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerGroup {
    pub workers: u64,
    /// The queues that each of them serves, if it reported them.
    pub queues: Option<Vec<String>>,
    pub pool: Option<String>,
    /// Number of jobs that each of them runs at the same time, if it reported that.
    pub concurrency: Option<u64>,
}

#[derive(Serialize)]
struct WorkerGroupsArgs {
    first: usize,
    count: usize,
}

#[derive(Deserialize)]
struct ReadGroups {
    read: usize,
    groups: Vec<ReadGroup>,
}

#[derive(Deserialize)]
struct ReadGroup {
    queues: Option<String>,
    pool: Option<String>,
    concurrency: Option<String>,
    workers: u64,
}

impl ReadGroup {
    /// Parses what the workers reported, which is JSON of any shape.
    fn group(self, store: &Store) -> WorkerGroup {
        let own = |queue: String| store.scope.qualified(&queue).into_owned();
        let queues = self.queues.and_then(|queues| serde_json::from_str::<Vec<String>>(&queues).ok());
        WorkerGroup {
            workers: self.workers,
            queues: queues.map(|queues| queues.into_iter().map(own).collect()),
            pool: self.pool.and_then(|pool| json::text(&pool).map(std::borrow::Cow::into_owned)),
            concurrency: self.concurrency.and_then(|number| number.parse().ok()),
        }
    }
}

impl Store {
    /// Returns the workers that have reported recently and are neither quiet nor terminating, at
    /// most 10,000. A worker that only fetches is not among them.
    pub async fn worker_groups(&self) -> Result<Vec<WorkerGroup>, Error> {
        let mut groups = Vec::new();
        for first in (0..MOST_WORKERS).step_by(PORTION) {
            let args = WorkerGroupsArgs { first, count: PORTION };
            let read: ReadGroups = WORKER_GROUPS.call_packed(&self.core, &args).await?;
            groups.extend(read.groups.into_iter().map(|group| group.group(self)));
            if read.read < PORTION {
                break;
            }
        }
        Ok(groups)
    }
}
