//! Jobs by what they are, for people: there is no index, so all of them are looked at, in portions.

use super::reply;
use super::script::JOB_SEARCH;
use super::{Error, QueueStats, ScanCursor, Store};
use crate::job::State;
use crate::job::escape::escape;
use std::collections::HashSet;

/// Keys looked at by one call, which bounds how long Redis is busy with it.
pub(super) const PORTION: usize = 256;
/// Keys looked at by one search.
pub(super) const MOST_KEYS: usize = 1_000_000;
/// Keys looked at for one page of a list that goes on by cursor.
pub(super) const KEYS_A_PAGE: usize = 80 * PORTION;

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
        let (mut found, mut seen, mut cursor) = (Vec::new(), HashSet::new(), ScanCursor::BEGINNING);
        for _ in 0..MOST_KEYS / PORTION {
            let (next, some) = self.find(filter, &cursor, None).await?;
            // A key may be met twice.
            found.extend(some.into_iter().filter(|job| seen.insert(job.id.clone())));
            cursor = next;
            if cursor.is_over() {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }

    /// Ids of at most so many jobs that fit, and where to go on. However rare they are, no more than [`KEYS_A_PAGE`] keys are looked at:
    /// there may be fewer than are wanted, or none, although the scan is not over.
    pub async fn scan_jobs(
        &self,
        filter: &JobFilter,
        from: ScanCursor,
        most: usize,
    ) -> Result<(Vec<String>, Option<ScanCursor>), Error> {
        let (mut ids, mut cursor) = (Vec::new(), from);
        for _ in 0..KEYS_A_PAGE / PORTION {
            let (next, some) = self.find(filter, &cursor, Some(most - ids.len())).await?;
            for job in some {
                if !ids.contains(&job.id) {
                    ids.push(job.id);
                }
            }
            cursor = next;
            if ids.len() >= most || cursor.is_over() {
                break;
            }
        }
        cursor.rest = ids.split_off(most.min(ids.len()));
        Ok((ids, Some(cursor).filter(|cursor| !cursor.is_over())))
    }

    /// Looks at a portion of the keys, until so many jobs that fit are found.
    async fn find(
        &self,
        filter: &JobFilter,
        cursor: &ScanCursor,
        most: Option<usize>,
    ) -> Result<(ScanCursor, Vec<Found>), Error> {
        // Of the scope's tenant alone, if it has one: jobs of another one are not there.
        let tenant = match (self.scope.tenant(), filter.tenant.as_deref()) {
            (Some(own), Some(wanted)) if own != wanted => return Ok((ScanCursor::behind(""), Vec::new())),
            (own, wanted) => own.or(wanted).map(escape).unwrap_or_default(),
        };
        let queue = filter.queue.as_deref().map(|queue| self.scope.qualified(queue)).unwrap_or_default();
        let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        let states = states.join(" ");
        let time = |time: Option<i64>| time.map(|ms| ms.to_string()).unwrap_or_default();
        let answer = JOB_SEARCH
            .call(&self.core.connection, |command, _| {
                self.core.begin(command).arg(cursor.word()).arg(PORTION).arg(&*queue);
                command.arg(&states).arg(filter.kind.as_deref().unwrap_or_default());
                command.arg(time(filter.since)).arg(time(filter.until)).arg(&tenant);
                command.arg(most.map(|most| most.to_string()).unwrap_or_default()).arg(&cursor.rest);
            })
            .await?;
        let mut words = reply::texts(answer, "find")?.into_iter();
        let next = words.next().ok_or_else(|| Error::unreadable("find"))?;
        let words: Vec<String> = words.collect();
        let found = words.chunks_exact(6).map(|job| Found {
            id: job[0].clone(),
            state: job[1].clone(),
            created: job[2].parse().unwrap_or(0),
            due: job[3].parse().ok(),
            priority: job[4].parse().unwrap_or(0),
            queue: self.scope.unqualified(&job[5]).unwrap_or(&job[5]).to_owned(),
        });
        Ok((ScanCursor::behind(&next), found.collect()))
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
