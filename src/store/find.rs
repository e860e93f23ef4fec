//! Jobs by what they are, for people: there is no index, so all of them are looked at, in portions.

use super::reply;
use super::script::FIND;
use super::{Error, QueueStats, Store};
use crate::job::State;
use crate::job::escape::escape;
use std::collections::HashSet;

/// Keys looked at by one call, which bounds how long Redis is busy with it.
const PORTION: usize = 512;
/// Keys looked at by one search.
const MOST_KEYS: usize = 1_000_000;

/// Which jobs to find.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    pub queue: Option<String>,
    /// A tenant's own; `_default` for those of nobody else.
    pub tenant: Option<String>,
    /// Any, if there is none.
    pub states: Vec<State>,
    /// A type, or the beginning of one and `*`.
    pub kind: Option<String>,
    /// Created at or after, in milliseconds.
    pub since: Option<i64>,
    /// Created at or before, in milliseconds.
    pub until: Option<i64>,
}

/// A job that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub queue: String,
    pub state: String,
    pub created: i64,
    pub due: Option<i64>,
    pub priority: i64,
}

impl Store {
    /// All jobs that fit, in no order, and whether there were too many keys to look at all of them.
    pub async fn find_jobs(&self, filter: &JobFilter) -> Result<(Vec<Found>, bool), Error> {
        let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        let states = states.join(" ");
        let time = |time: Option<i64>| time.map(|ms| ms.to_string()).unwrap_or_default();
        let (mut found, mut seen, mut cursor) = (Vec::new(), HashSet::new(), "0".to_owned());
        for _ in 0..MOST_KEYS / PORTION {
            let answer = FIND
                .call(&self.core.link, |command, _| {
                    self.core.begin(command).arg(&cursor).arg(PORTION).arg(filter.queue.as_deref().unwrap_or_default());
                    command.arg(&states).arg(filter.kind.as_deref().unwrap_or_default());
                    command.arg(time(filter.since)).arg(time(filter.until));
                    command.arg(filter.tenant.as_deref().map(escape).unwrap_or_default());
                })
                .await?;
            let mut words = reply::texts(answer, "find")?.into_iter();
            cursor = words.next().ok_or_else(|| Error::unreadable("find"))?;
            let words: Vec<String> = words.collect();
            for job in words.chunks_exact(6) {
                // A key may be met twice.
                if seen.insert(job[0].clone()) {
                    found.push(Found {
                        id: job[0].clone(),
                        state: job[1].clone(),
                        created: job[2].parse().unwrap_or(0),
                        due: job[3].parse().ok(),
                        priority: job[4].parse().unwrap_or(0),
                        queue: job[5].clone(),
                    });
                }
            }
            if cursor == "0" {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }
}

impl Store {
    /// A tenant's jobs in a queue by state. Nobody counts them, so all jobs are looked at, and nothing is told of the oldest.
    pub async fn tenant_queue_stats(&self, queue: &str, tenant: &str) -> Result<QueueStats, Error> {
        let (queue, tenant) = (Some(queue.to_owned()), Some(tenant.to_owned()));
        let (found, _) = self.find_jobs(&JobFilter { queue, tenant, ..JobFilter::default() }).await?;
        let mut stats = QueueStats::default();
        for state in State::ALL {
            let count = found.iter().filter(|job| job.state == state.name()).count();
            stats.counts.insert(state.name(), count as i64);
        }
        Ok(stats)
    }
}
