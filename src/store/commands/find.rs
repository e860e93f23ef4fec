//! Job search for people. There is no index, so a search scans all jobs in portions.

use super::script::JOB_SEARCH;
use super::{Error, QueueStats, ScanCursor, Store};
use crate::domain::escape::escape;
use crate::domain::job::State;
use serde::{Deserialize, Serialize};
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
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct FoundJob {
    pub id: String,
    pub queue: String,
    pub state: State,
    pub created: i64,
    pub due: Option<i64>,
    pub priority: i64,
}

#[derive(Serialize)]
struct JobSearch<'a> {
    cursor: Option<String>,
    keys: usize,
    queue: Option<&'a str>,
    states: Vec<&'a str>,
    r#type: Option<&'a str>,
    since: Option<i64>,
    til: Option<i64>,
    tenant: Option<String>,
    most: Option<usize>,
    ids: &'a [String],
}

#[derive(Deserialize)]
struct SearchedJobs {
    cursor: Option<String>,
    jobs: Vec<FoundJob>,
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
            (Some(own), Some(wanted)) if own != wanted => return Ok((ScanCursor::behind(None), Vec::new())),
            (own, wanted) => own.or(wanted).map(escape),
        };
        let queue = filter.queue.as_deref().map(|queue| self.scope.qualified(queue));
        let args = JobSearch {
            cursor: cursor.word(),
            keys: PORTION,
            queue: queue.as_deref(),
            states: filter.states.iter().map(|state| state.name()).collect(),
            r#type: filter.kind.as_deref(),
            since: filter.since,
            til: filter.until,
            tenant,
            most,
            ids: &cursor.rest,
        };
        let mut found: SearchedJobs = JOB_SEARCH.call_packed(&self.core, &args).await?;
        for job in &mut found.jobs {
            job.queue = self.scope.unqualified(&job.queue).unwrap_or(&job.queue).to_owned();
        }
        Ok((ScanCursor::behind(found.cursor.as_deref()), found.jobs))
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
