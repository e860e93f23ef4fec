//! Job search for people. There is no index, so a search scans all jobs in portions.

use super::reply;
use super::script::JOB_SEARCH;
use super::{Error, QueueStats, ScanCursor, Store};
use crate::domain::escape::escape;
use crate::domain::job::State;
use std::collections::HashSet;

/// Number of keys that one call scans; bounds how long the call occupies Redis.
pub(super) const PORTION: usize = 256;
/// Largest number of keys that one search scans.
pub(super) const MOST_KEYS: usize = 1_000_000;
/// Largest number of keys scanned for one page of a list with a cursor.
pub(super) const KEYS_A_PAGE: usize = 80 * PORTION;

/// A filter for jobs.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    pub queue: Option<String>,
    /// Jobs of this tenant; `_default` for jobs that name no tenant.
    pub tenant: Option<String>,
    /// States that match; all if empty.
    pub states: Vec<State>,
    /// A job type, or the beginning of one followed by `*`.
    pub kind: Option<String>,
    /// Earliest time of creation, in milliseconds.
    pub since: Option<i64>,
    /// Latest time of creation, in milliseconds.
    pub until: Option<i64>,
}

/// A job that matches a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundJob {
    pub id: String,
    pub queue: String,
    pub state: State,
    pub created: i64,
    pub due: Option<i64>,
    pub priority: i64,
}

impl Store {
    /// Returns all matching jobs in no particular order, and true if there were too many keys to
    /// scan all of them.
    pub async fn find_jobs(&self, filter: &JobFilter) -> Result<(Vec<FoundJob>, bool), Error> {
        let (mut found, mut seen, mut cursor) = (Vec::new(), HashSet::new(), ScanCursor::BEGINNING);
        for _ in 0..MOST_KEYS / PORTION {
            let (next, some) = self.find(filter, &cursor, None).await?;
            // A scan may return a key twice.
            found.extend(some.into_iter().filter(|job| seen.insert(job.id.clone())));
            cursor = next;
            if cursor.is_over() {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }

    /// Returns the ids of at most `most` matching jobs, and a cursor to continue from. Scans no
    /// more than [`KEYS_A_PAGE`] keys, so it may return fewer ids than asked for, or none, before
    /// the scan is over.
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

    /// Scans a portion of the keys, or stops earlier after `most` matching jobs.
    async fn find(
        &self,
        filter: &JobFilter,
        cursor: &ScanCursor,
        most: Option<usize>,
    ) -> Result<(ScanCursor, Vec<FoundJob>), Error> {
        // A scope with a tenant limits the search to that tenant's jobs.
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
        let mut words = reply::texts(answer, "job_search")?.into_iter();
        let next = words.next().ok_or_else(|| Error::unreadable("job_search"))?;
        let words: Vec<String> = words.collect();
        let found = words.chunks_exact(6).map(|job| {
            Ok(FoundJob {
                id: job[0].clone(),
                state: reply::state(&job[1], "job_search")?,
                created: job[2].parse().unwrap_or(0),
                due: job[3].parse().ok(),
                priority: job[4].parse().unwrap_or(0),
                queue: self.scope.unqualified(&job[5]).unwrap_or(&job[5]).to_owned(),
            })
        });
        Ok((ScanCursor::behind(&next), found.collect::<Result<_, Error>>()?))
    }
}

impl Store {
    /// Returns the numbers of a tenant's jobs in a queue by state. These are not counted in the
    /// store, so all jobs are scanned, and the oldest job is not reported.
    pub async fn tenant_queue_stats(&self, queue: &str, tenant: &str) -> Result<QueueStats, Error> {
        let (queue, tenant) = (Some(queue.to_owned()), Some(tenant.to_owned()));
        let (found, _) = self.find_jobs(&JobFilter { queue, tenant, ..JobFilter::default() }).await?;
        let mut stats = QueueStats::default();
        for state in State::ALL {
            let count = found.iter().filter(|job| job.state == state).count();
            stats.counts.insert(state, count as i64);
        }
        Ok(stats)
    }
}
